"""One recipe from plan to wheels: write the files, fill the engine, bake, audit, publish, report."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from bakery import locker
from bakery.drive import index
from bakery.drive.argv import EXECUTION
from bakery.drive.bake import BakeRequest
from bakery.drive.bases import Bases
from bakery.drive.collect import check_output, holds
from bakery.drive.display import QuietDisplay
from bakery.drive.engine import Engine
from bakery.drive.entitle import Grants
from bakery.drive.journal import Record, last_run, open_journal
from bakery.drive.layouts import Layout, Layouts
from bakery.drive.listener import Listener
from bakery.drive.logfiles import LogFiles
from bakery.drive.nodes import Nodes
from bakery.drive.outcome import BakeFailure, Result
from bakery.drive.peaks import Peaks, is_here
from bakery.drive.places import places
from bakery.drive.private import private_files
from bakery.drive.process import caught
from bakery.drive.progress import Board
from bakery.drive.runs import run_folder
from bakery.drive.schedule import Item, Limits, Schedule, Seat, unknown
from bakery.drive.secrets import Revealed, revealed
from bakery.emit.files import generate
from bakery.errors import BakeError, BakeryError, InterruptedBake, SomeFailed
from bakery.files import write
from bakery.finish import Finisher
from bakery.ingredients import beside, overrides
from bakery.lineage import Lineage
from bakery.lock.materials import Materials
from bakery.locker import Bench, Locked, Pins
from bakery.names import MACHINES, Kind
from bakery.plan import Cell, Image, Plan, Secret, Target, ignored_output
from bakery.record import facts as recorded
from bakery.record.facts import image_purl
from bakery.recorder import Recorder
from bakery.report.run import CellFailure, PublishedWheel, RunReport, TargetReport
from bakery.runner import Runner, Told
from bakery.work import Machine, Work, is_image, items, keys, made_of, together, works

USABLE = 0.85
"""The share of an engine's memory that compilers may use, as ``with-jobs`` has it, too."""


def warm_up() -> None:
    """Import what a bake needs and what is slow to import; called while the engine is asked who it is."""
    for name in ("python_on_whales", "pip._internal.configuration"):
        importlib.import_module(name)


class Again(StrEnum):
    """Which cells a run takes up, of those that are asked for."""

    ALL = "all"
    UNFINISHED = "unfinished"
    """Those that the last run did not finish, or that changed since."""
    FAILED = "failed"
    """Those that failed in the last run."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a record says that cells were made of.

    Attributes:
        cells: cell → packages and commits.
        images: name → digest of base images.
    """

    cells: Mapping[str, Materials]
    images: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says about a bake.

    Attributes:
        groups: the targets asked for: ``wheel``, ``full``, ….
        only: globs over cells; none for all.
        output: the folder for wheels; None for the recipe's.
        builder: the builder's name; None for the current one.
        allow: what the recipe may do on this machine beyond its folder, as ``--allow`` says it.
        keep_going: a failed cell stops only what depends on it; None for that where there are several cells.
        parallel: cells that are baked at once; 0 for as many as the engine has cores.
        retries: further tries of a cell that the network or the engine failed.
        cell_timeout_s: seconds that one try of a cell may take, None for any.
        deadline: local clock when the time for all is over, None for never.
        again: which cells are left out because an earlier run has done with them.
        locked: refuse everything that the recipe's lock does not hold.
        held: what cells are to be made of again, in place of the recipe's lock; None for that.
    """

    groups: tuple[str, ...]
    only: tuple[str, ...] = ()
    output: Path | None = None
    no_cache: bool = False
    pull: bool = False
    builder: str | None = None
    allow: tuple[str, ...] = ()
    keep_going: bool | None = None
    parallel: int = 0
    retries: int = 2
    cell_timeout_s: float | None = None
    deadline: float | None = None
    again: Again = Again.ALL
    locked: bool = False
    held: Held | None = None


class Oven:
    """The engine, and what this machine gives it; one serves any number of recipes.

    Attributes:
        environment: the process' environment with what leads to the engine.
        ca_bundle: a PEM file that build steps shall trust; None for none.
        say: tells a person one line.
        bases: the base images it has.
        nodes: what bakes it in the engine's place; None for the engine itself.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        ca_bundle: Path | None,
        say: Callable[[str], None],
        nodes: Nodes | None = None,
    ) -> None:
        self.environment = environment
        self.ca_bundle = ca_bundle
        self.say = say
        self.bases = Bases(environment, say)
        self.places = places(environment)
        self.index = index.configured()
        self.nodes = nodes
        self.layouts = Layouts(environment, self.places.cache / "layouts")


def bake_plan(root: Path, plan: Plan, options: Options, oven: Oven, listener: Listener) -> RunReport:
    """Bake the chosen targets of a plan; each wheel that passes is published as soon as it is finished.

    Returns:
        The report, also of cells that failed and of a run that a signal or the time ended (`conclusion` judges it). It
        is written as ``report.json`` into the run's folder, too.

    Raises:
        BakeryError: what ends all cells. Wheels that were published by then stay.
    """
    targets = plan.select(options.groups, options.only)
    known = last_run(root, plan.recipe)
    chosen = works(targets)
    cells = list({target.cell.id: target.cell for target in targets}.values())
    held = options.held
    locked = held.cells if held else locker.fitting(root, plan, cells, oven.say, strict=options.locked)
    plan = locker.with_sources(plan, locked)
    named = locker.keyed(keys(plan, root, chosen.values()), locked)
    kept = _kept(root, plan, options, chosen, known, named)
    fresh = {name: work for name, work in chosen.items() if name not in kept}
    wanted = [target for work in fresh.values() for target in work.targets]
    told = plan.told({target.kind for target in wanted})
    _check_wants(root, plan, options, told)
    if oven.nodes:
        oven.nodes.require(target.cell.platform for target in wanted)
    index.check(
        (need for work in fresh.values() for need in work.cell.needs),
        oven.index,
        ca_bundle=str(oven.ca_bundle or ""),
        memory=oven.places.cache / "index.json",
    )
    pip_conf = oven.index.pip_conf().encode()
    with (
        private_files({"PIP_CONF": pip_conf} if pip_conf else {}) as own,
        revealed(plan.secrets, told, root, oven.environment) as secrets,
    ):
        fresh_cells = list({target.cell.id: target.cell for target in wanted}.values())
        bench = _bench(root, plan, fresh_cells, options, oven, secrets, own, QuietDisplay())
        if held:
            locked = locker.again(bench, locked, fresh_cells, held.images, oven.say)
        elif locked:
            locker.check_images(bench, locked, fresh_cells)
        if options.locked and fresh_cells:
            oven.say(f"{plan.recipe}: comparing what is here with {plan.lock}")
            locker.compare(bench, fresh_cells, locked)
        pins = locker.pins(bench, (*wanted, *beside(plan, wanted)), locked, strict=options.locked)
        with run_folder(root) as state:
            run = _Run(root, plan, fresh, named, options, oven, state, known, own.get("PIP_CONF"), secrets, pins, bench)
            return run.go(listener, targets, kept)


def lock_plan(
    root: Path, plan: Plan, options: Options, oven: Oven, listener: Listener, upgrade: Collection[str] = ()
) -> Locked:
    """Look up what the chosen cells of a plan are made of, keeping what its lock says as far as it fits.

    Args:
        upgrade: distributions and base images that are not kept.

    Raises:
        BakeryError: any of its kinds.
    """
    cells = list(plan.chosen(options.only).cells)
    needed = plan.told({Kind.MATERIALS})
    _check_wants(root, plan, options, needed)
    pip_conf = oven.index.pip_conf().encode()
    with (
        private_files({"PIP_CONF": pip_conf} if pip_conf else {}) as own,
        revealed(plan.secrets, needed, root, oven.environment) as told,
    ):
        return locker.make(_bench(root, plan, cells, options, oven, told, own, listener), cells, upgrade)


def _bench(
    root: Path,
    plan: Plan,
    cells: Sequence[Cell],
    options: Options,
    oven: Oven,
    told: Revealed,
    own: Mapping[str, Path],
    listener: Listener,
) -> Bench:
    """Return what a build of cells' materials is given; the engine has their bases, where bakery can make them."""
    ca_bundle = oven.ca_bundle
    return Bench(
        root=root,
        plan=plan,
        environment=oven.environment,
        names=oven.bases.ensure(image for cell in cells for image in cell.images),
        variables={
            "CA_BUNDLE": str(ca_bundle or ""),
            "PIP_CONF": str(own.get("PIP_CONF", "")),
            **told.variables,
        },
        listener=listener,
        reads=(ca_bundle,) if ca_bundle else (),
        mask=told.mask,
        builder=options.builder,
        no_cache=options.no_cache,
    )


def _check_wants(root: Path, plan: Plan, options: Options, needed: Sequence[Secret]) -> None:
    """Check what a recipe asks of this machine, as far as this run needs it.

    Raises:
        UsageError: something that nobody allowed.
    """
    idle = {text for secret in plan.secrets for text in secret.wants if secret not in needed}
    if options.output:
        idle.add(f"fs.write={plan.output}")
    Grants.parse(options.allow).require([want for want in plan.wants if want not in idle], root)


def _kept(
    root: Path,
    plan: Plan,
    options: Options,
    chosen: Mapping[str, Work],
    known: Mapping[str, Record],
    named: Mapping[str, str],
) -> dict[str, Record]:
    """Return the cells that need not be baked, and what is known of them.

    Cells that share a wheel are baked together or not at all: their tests speak of one build of it.
    """
    output = options.output or root / plan.output

    def is_done(name: str) -> bool:
        record = known.get(name)
        return (
            record is not None
            and record.result is Result.DONE
            and record.key == named[name]
            and not is_image(plan, chosen[name])
            and all(holds(output, wheel.name, wheel.sha256) for wheel in record.wheels)
        )

    def is_left_out(name: str) -> bool:
        if options.again is Again.FAILED:
            return name not in known or known[name].result is not Result.FAILED
        return options.again is Again.UNFINISHED and is_done(name)

    members = together(chosen)
    unknown = Record("", "", Result.CANCELED)
    return {name: known.get(name, unknown) for name in chosen if all(is_left_out(member) for member in members[name])}


@dataclass(frozen=True, slots=True)
class _Run:
    """One run in its folder.

    Attributes:
        works: the cells to bake.
        keys: cell → digest of what defines it.
        known: what the last run knew.
        pins: what each target is held to.
        bench: knows what the engine calls a base image.
    """

    root: Path
    plan: Plan
    works: Mapping[str, Work]
    keys: Mapping[str, str]
    options: Options
    oven: Oven
    state: Path
    known: Mapping[str, Record]
    pip_conf: Path | None
    secrets: Revealed
    pins: Pins
    bench: Bench

    def go(self, listener: Listener, targets: Sequence[Target], kept: Mapping[str, Record]) -> RunReport:
        """Bake what is to be baked; report on all ``targets``."""
        began = time.monotonic()
        if any(work.has(Kind.WHEEL) for work in self.works.values()):
            check_output(self.output, self.root)
        request = self._request()
        schedule = self._schedule()
        recorder = Recorder(
            plan=self.plan,
            root=self.root,
            output=self.output,
            state=self.state,
            environment=self.oven.environment,
            built_on=lambda cell: self._node(schedule.seat(cell.id)),
            sent=self._names_of_sent(),
        )
        lineage = Lineage(self.plan)
        journal = open_journal(self.root, self.plan.recipe, self._carried())
        board = Board([target.name for work in self.works.values() for target in work.targets])
        with caught() as signals, LogFiles(request.logs) as logs:
            finisher = Finisher(
                plan=self.plan,
                root=self.root,
                stage=request.stage,
                output=self.output,
                memory=self.oven.places.cache / "audited",
                journal=journal,
                keys=self.keys,
                learnt=self._learnt,
                recorder=recorder,
                mask=self.secrets.mask,
                is_halted=lambda: bool(signals.arrived),
            )
            for name, record in kept.items():
                finisher.claims.take(name, {self.output / item.name: item.sha256 for item in record.wheels})
            runner = Runner(
                works=self.works,
                args={name: self.plan.args_of(work.cell) for name, work in self.works.items()},
                groups=together(self.works),
                schedule=schedule,
                finisher=finisher,
                request=lambda work, node: self._of(request, work, node),
                made_of=lambda work: made_of(self.plan, lineage, work),
                error=lambda outcome: locker.failure(outcome, self._lock),
                say=self.oven.say,
                signals=signals,
                deadline=self.options.deadline,
                peaks=Peaks() if is_here(self.oven.environment) and not self.oven.nodes else None,
                nodes=self.oven.nodes,
            )
            listener.start(board)
            try:
                runner.run(board, logs, listener)
            finally:
                listener.finish()
        report = self._report(runner, targets, kept, time.monotonic() - began)
        (self.state / "report.json").write_text(json.dumps(report.to_json(), indent=1), encoding="utf-8")
        return report

    @property
    def output(self) -> Path:
        """The folder that receives wheels."""
        return self.options.output or self.root / self.plan.output

    @property
    def _learnt(self) -> dict[str, int]:
        return {name: record.memory for name, record in self.known.items()}

    def _schedule(self) -> Schedule:
        keep_going = self._keeps_going
        if self.oven.nodes:
            return self._spread(self.oven.nodes, keep_going=keep_going)
        if len(self.works) < 2:
            return Schedule([Item(name) for name in self.works], Limits(1, 0, self.options.retries, keep_going))
        info = Engine(self.oven.environment).info()
        machine = Machine(info.cpus, round(info.memory * USABLE / 1e6))
        limits = Limits(self.options.parallel or machine.cores, machine.memory, self.options.retries, keep_going)
        found = items(self.plan, self.works.values(), machine, self._learnt)
        if limits.parallel > 1 and (number := unknown(found)):
            self.oven.say(
                f"{number} of {len(found)} cells: what memory they need is not known (builder.job-memory says it, or an "
                f"earlier run); only their number is limited, to {limits.parallel} at once"
            )
        return Schedule(found, limits)

    def _spread(self, nodes: Nodes, *, keep_going: bool) -> Schedule:
        """Return the schedule over nodes: their slots say how many cells at once, whatever memory these need."""
        seats = [Seat(one.node.name, one.node.slots, frozenset(one.platforms)) for one in nodes.alive]
        parallel = self.options.parallel or sum(seat.slots for seat in seats)
        found = items(self.plan, self.works.values(), Machine(0, 0), {})
        return Schedule(found, Limits(parallel, 0, self.options.retries, keep_going), seats)

    def _carried(self) -> list[Record]:
        """Return what the new journal begins with: what is not baked now is as it was, the rest is unfinished."""
        cells = {cell.id for cell in self.plan.cells}
        rest = [record for name, record in self.known.items() if name in cells and name not in self.works]
        begun = [Record(name, self.keys[name], Result.CANCELED, self._learnt.get(name, 0)) for name in self.works]
        return [*rest, *begun]

    def _request(self) -> BakeRequest:
        """Return the request of all targets; that of a cell is a part of it."""
        # The files of this very plan, beside the run's logs: what is committed may be out of date.
        place = self.state.relative_to(self.root)
        own = replace(
            self.plan,
            dockerfile=str(place / "Dockerfile"),
            bakefile=str(place / "bake.hcl"),
            ignore=(*self.plan.ignore, *self._output_ignored()),
        )
        write(self.root, generate(own))
        ca_bundle = self.oven.ca_bundle
        return BakeRequest(
            root=self.root,
            bakefile=Path(own.bakefile),
            targets=tuple(target for work in self.works.values() for target in work.targets),
            environment={**self.oven.environment, **self.pins.environment},
            variables={
                **self.plan.values(),
                "DEST": str(self.state / "stage"),
                "CA_BUNDLE": str(ca_bundle or ""),
                "PIP_CONF": str(self.pip_conf or ""),
                **self.secrets.variables,
            },
            state=self.state,
            overrides=tuple(map(str, self.plan.overrides)),
            builder=self.options.builder,
            no_cache=self.options.no_cache,
            pull=self.options.pull,
            timeout_s=self.options.cell_timeout_s,
            defer_errors=self._defers_errors(),
            reads=(ca_bundle,) if ca_bundle else (),
            mask=self.secrets.mask,
        )

    def _defers_errors(self) -> bool:
        """Whether the targets of one cell shall not cancel each other, and buildx can do that."""
        several = any(len(work.targets) > 1 for work in self.works.values())
        return several and self._keeps_going and Engine(self.oven.environment).bake_offers(EXECUTION)

    @property
    def _keeps_going(self) -> bool:
        return len(self.works) > 1 if self.options.keep_going is None else self.options.keep_going

    def _of(self, request: BakeRequest, work: Work, node: str) -> BakeRequest:
        also = beside(self.plan, work.targets)
        every = (*work.targets, *also)
        contexts = [override for target in every for override in self.pins.overrides[target.name]]
        contexts += [override for target in also for override in overrides(self.plan, target)]
        own = replace(request, targets=work.targets, beside=also, overrides=(*request.overrides, *contexts))
        if not (node and self.oven.nodes):
            return own
        sent = [
            f"{target.name}.contexts.{image.ref}={layout.context}"
            for image, layout in self._sent(work).items()
            for target in every
        ]
        return replace(
            own,
            builder=self.oven.nodes.node(node).builder,
            overrides=(*own.overrides, *sent),
            reads=(*own.reads, self.oven.layouts.folder),
        )

    def _sent(self, work: Work) -> dict[Image, Layout]:
        """Return the base images of a cell that only this machine's engine has."""
        found = {image: self.oven.layouts.of(self.bench.name(image), image.platform) for image in work.cell.images}
        return {image: layout for image, layout in found.items() if layout}

    def _names_of_sent(self) -> dict[str, str]:
        """Return sha256 → package URL of all images that nodes are sent."""
        if not self.oven.nodes:
            return {}
        return {
            layout.digest.removeprefix("sha256:"): image_purl(self.bench.name(image), image.platform)
            for work in self.works.values()
            for image, layout in self._sent(work).items()
        }

    def _node(self, name: str) -> recorded.Machine | None:
        """Return who builds on a node, for the record."""
        seats = self.oven.nodes.seats if self.oven.nodes else ()
        found = next((seat for seat in seats if seat.node.name == name), None)
        if found is None:
            return None
        own = found.platforms[0] if found.platforms else ""
        return recorded.Machine(found.version, "", f"linux/{MACHINES.get(own, own)}", "buildkit")

    @property
    def _lock(self) -> str:
        """What the build is held to, in words; empty for nothing."""
        return "" if not self.pins.locked else "its provenance" if self.options.held else self.plan.lock

    def _output_ignored(self) -> tuple[str, ...]:
        """An output folder inside the project must not change what the next bake sees."""
        output, root = self.output.absolute(), self.root.absolute()
        if not output.is_relative_to(root):
            return ()
        pattern = ignored_output(output.relative_to(root).as_posix())
        return (pattern,) if pattern and pattern not in self.plan.ignore else ()

    def _report(
        self, runner: Runner, targets: Sequence[Target], kept: Mapping[str, Record], seconds: float
    ) -> RunReport:
        stopped = runner.signals.name or ("timeout" if runner.late else "")
        failures = tuple(CellFailure(name, told.error) for name, told in runner.told.items() if told.error)
        mine = tuple(
            self._kept_target(target, kept[target.cell.id])
            if target.cell.id in kept
            else self._target(target, runner.told[target.cell.id])
            for target in targets
            if self.options.again is not Again.FAILED or target.cell.id not in kept
        )
        outcomes = [told.outcome for told in runner.told.values() if told.outcome]
        printed = tuple(sorted({name for outcome in outcomes for name in outcome.printed}))
        return RunReport(
            recipe=self.plan.recipe,
            targets=mine,
            output=self.output,
            state=self.state,
            seconds=seconds,
            failures=failures,
            stopped=stopped,
            printed=printed,
        )

    def _kept_target(self, target: Target, record: Record) -> TargetReport:
        wheels = record.wheels if target.kind is Kind.WHEEL else ()
        return TargetReport(
            name=target.name,
            cell=target.cell.id,
            result=Result.KEPT.value,
            seconds=0.0,
            steps=0,
            cached=0,
            log=None,
            wheels=tuple(PublishedWheel(self.output / item.name, item.sha256, item.size) for item in wheels),
            tries=0,
        )

    def _target(self, target: Target, told: Told) -> TargetReport:
        outcome = told.outcome.targets[target.name] if told.outcome else None
        result = outcome.result if outcome else Result.CANCELED
        result = Result.CANCELED if told.stopped and result is not Result.DONE else result
        reason = told.why
        if told.error and (result is not Result.DONE or not isinstance(told.error, BakeFailure)):
            # A wheel that was baked and refused failed, too.
            result = Result.FAILED if result is Result.DONE and target.kind is Kind.WHEEL else result
            reason = told.error.message
        elif told.error:
            reason = f"another target of {target.cell.id} failed"
        wheels = told.wheels if target.kind is Kind.WHEEL else ()
        return TargetReport(
            name=target.name,
            cell=target.cell.id,
            result=result.value,
            seconds=outcome.seconds if outcome else 0.0,
            steps=outcome.steps if outcome else 0,
            cached=outcome.cached if outcome else 0,
            log=outcome.log if outcome and outcome.log.exists() else None,
            wheels=tuple(
                PublishedWheel(self.output / item.path.name, item.sha256, item.size, item.warnings) for item in wheels
            ),
            tries=told.tries,
            reason=reason,
            node=told.node,
            left=told.left,
        )


def refused(root: Path, plan: Plan, options: Options, error: BakeryError) -> RunReport:
    """Return the report of a recipe that could not be begun."""
    targets = plan.select(options.groups, options.only)
    output = options.output or root / plan.output
    rows = tuple(
        TargetReport(target.name, target.cell.id, Result.CANCELED.value, 0.0, 0, 0, None, (), 0, error.message)
        for target in targets
    )
    return RunReport(plan.recipe, rows, output, root / ".bakery", 0.0, (CellFailure(plan.recipe, error),))


def conclusion(reports: Sequence[RunReport]) -> BakeryError | None:
    """Return what runs have to fail with, taken together; None when all of it is done.

    The exit code of some is one of its own; with none done it is that of the first failure.
    """
    cells = [done for report in reports for done in report.cells.values()]
    failures = [failure for report in reports for failure in report.failures]
    stopped = next((report for report in reports if report.stopped), None)
    if stopped and stopped.stopped != "timeout":
        return InterruptedBake(
            f"interrupted by {stopped.stopped}: the build was ended",
            hint=f"{sum(cells)} of {len(cells)} cells are done; go on with --resume; logs: {stopped.state / 'logs'}",
        )
    if all(cells):
        return None
    if len(cells) == 1 and failures:
        return failures[0].error
    first = failures[0].error if failures else None
    details = [f"{failure.cell}: {failure.error.message}" for failure in failures] if len(failures) > 1 else []
    logs = ", ".join(str(report.state / "logs") for report in reports if report.failures)
    hints = [f"logs: {logs}; bake these again with --failed"] if failures else ["go on with --resume"]
    message = f"{len(failures)} of {len(cells)} cells failed"
    if stopped:
        message = f"the time was over with {sum(cells)} of {len(cells)} cells done"
        hints.append("or allow more time with --timeout")
    elif first and len(failures) == 1:
        message = f"{message}: {first.message}"
        details = list(first.details)
        hints = [first.hint, *hints] if first.hint else hints
    exit_code = SomeFailed.exit_code if any(cells) else first.exit_code if first else BakeError.exit_code
    title = first.title if first else BakeError.title
    return CellsFailed(message, exit_code, title, hint="; ".join(hints), details=details)


class CellsFailed(BakeError):
    """Cells of a run failed; exit code and title are those of what happened."""

    def __init__(self, message: str, exit_code: int, title: str, *, hint: str, details: Sequence[str]) -> None:
        super().__init__(message, hint=hint, details=details)
        self.exit_code = exit_code
        self.title = title
