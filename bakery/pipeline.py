"""One recipe from plan to wheels: write the files, fill the engine, bake, audit, publish, report."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from bakery.audit.memory import Verdict, audit
from bakery.drive import index
from bakery.drive.bake import BakeRequest, bake
from bakery.drive.bases import Bases
from bakery.drive.collect import publish, stage_files
from bakery.drive.entitle import Grants
from bakery.drive.listener import Listener
from bakery.drive.outcome import BakeFailure, BakeOutcome, Result
from bakery.drive.places import places
from bakery.drive.private import private_files
from bakery.drive.runs import run_folder
from bakery.drive.secrets import Revealed, leaks, revealed
from bakery.emit.files import generate
from bakery.errors import AuditError, BakeError
from bakery.files import write
from bakery.names import Kind
from bakery.plan import Cell, Plan, Secret, Target, ignored_output
from bakery.promises import promises
from bakery.recorder import Recorder
from bakery.report.run import PublishedWheel, RunReport, TargetReport
from bakery.rules.device import device_promises


def warm_up() -> None:
    """Import what a bake needs and what is slow to import; called while the engine is asked who it is."""
    for name in ("python_on_whales", "pip._internal.configuration"):
        importlib.import_module(name)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says about a bake.

    Attributes:
        groups: the targets asked for: ``wheel``, ``full``, ….
        only: globs over cells; none for all.
        output: the folder for wheels; None for the recipe's.
        builder: the builder's name; None for the current one.
        allow: what the recipe may do on this machine beyond its folder, as ``--allow`` says it.
    """

    groups: tuple[str, ...]
    only: tuple[str, ...] = ()
    output: Path | None = None
    no_cache: bool = False
    pull: bool = False
    builder: str | None = None
    allow: tuple[str, ...] = ()


class Oven:
    """The engine, and what this machine gives it; one serves any number of recipes.

    Attributes:
        environment: the process' environment with what leads to the engine.
        ca_bundle: a PEM file that build steps shall trust; None for none.
        bases: the base images it has.
    """

    def __init__(self, environment: Mapping[str, str], ca_bundle: Path | None, say: Callable[[str], None]) -> None:
        self.environment = environment
        self.ca_bundle = ca_bundle
        self.bases = Bases(environment, say)
        self.places = places(environment)
        self.index = index.configured()


def bake_plan(root: Path, plan: Plan, options: Options, oven: Oven, listener: Listener) -> RunReport:
    """Bake the chosen targets of a plan and publish what passed the audit.

    Returns:
        The report; it is also written as ``report.json`` into the run's folder.

    Raises:
        BakeryError: any of its kinds. Wheels that were finished and audited by then are published, except
            after an interruption, which leaves the output folder as it was.
    """
    targets = plan.select(options.groups, options.only)
    needed = plan.told({target.kind for target in targets})
    _check_wants(root, plan, options, needed)
    cells = list({target.cell.id: target.cell for target in targets}.values())
    index.check(
        (need for cell in cells for need in cell.needs),
        oven.index,
        ca_bundle=str(oven.ca_bundle or ""),
        memory=oven.places.cache / "index.json",
    )
    pip_conf = oven.index.pip_conf().encode()
    with (
        private_files({"PIP_CONF": pip_conf} if pip_conf else {}) as own,
        revealed(plan.secrets, needed, root, oven.environment) as told,
    ):
        contexts = _stand_ins(targets, oven.bases)
        with run_folder(root) as state:
            return _Run(root, plan, targets, options, oven, state, told).go(listener, own.get("PIP_CONF"), contexts)


def _check_wants(root: Path, plan: Plan, options: Options, needed: Sequence[Secret]) -> None:
    """Check what a recipe asks of this machine, as far as this run needs it.

    Raises:
        UsageError: something that nobody allowed.
    """
    idle = {text for secret in plan.secrets for text in secret.wants if secret not in needed}
    if options.output:
        idle.add(f"fs.write={plan.output}")
    Grants.parse(options.allow).require([want for want in plan.wants if want not in idle], root)


def _stand_ins(targets: Sequence[Target], bases: Bases) -> tuple[str, ...]:
    """Make sure that the engine has every base; return the overrides that name stand-ins."""
    names = bases.ensure(image for target in targets for image in target.cell.images)
    return tuple(
        f"{target.name}.contexts.{image.ref}=docker-image://{name}"
        for target in targets
        for image in target.cell.images
        if (name := names.get((image.ref, image.platform), image.ref)) != image.ref
    )


class BakeStopped(BakeError):
    """A target failed; ``report`` tells what became of the others."""

    def __init__(self, failure: BakeFailure, report: RunReport) -> None:
        super().__init__(failure.message, hint=failure.hint, details=failure.details)
        self.report = report


@dataclass(frozen=True, slots=True)
class _Run:
    """One bake in its run folder."""

    root: Path
    plan: Plan
    targets: tuple[Target, ...]
    options: Options
    oven: Oven
    state: Path
    told: Revealed

    def go(self, listener: Listener, pip_conf: Path | None, contexts: Iterable[str]) -> RunReport:
        """Bake, then publish what is finished, also when a sibling failed."""
        began = time.monotonic()
        request = self._request(pip_conf, contexts)
        output = self.options.output or self.root / self.plan.output
        recorder = Recorder(self.plan, self.root, output, self.state, self.oven.environment)
        failure: BakeFailure | None = None
        try:
            outcome = bake(request, listener)
        except BakeFailure as error:
            failure, outcome = error, error.outcome
        wheels, refused = self._audited(request.stage, outcome)
        for target in self.targets:
            if target.kind is Kind.WHEEL and target.cell.id in wheels:
                own = {verdict.path: verdict.sha256 for verdict in wheels[target.cell.id]}
                recorder.publish(target.cell, own, outcome.targets[target.name].metadata)
        files = [verdict.path for verdicts in wheels.values() for verdict in verdicts]
        published = dict(zip(files, publish(files, output, root=self.root), strict=True)) if files else {}
        report = RunReport(
            self.plan.recipe,
            tuple(self._target(target, outcome, wheels.get(target.cell.id, ()), published) for target in self.targets),
            output,
            self.state,
            time.monotonic() - began,
            outcome.printed,
        )
        (self.state / "report.json").write_text(json.dumps(report.to_json(), indent=1), encoding="utf-8")
        if failure:
            raise BakeStopped(failure, report)
        if refused:
            raise AuditError(
                f"recipe {self.plan.recipe}: a wheel is not what it promises; it was kept out of {output}",
                details=refused,
                hint="the audit's words say what to change; `bakery audit WHEEL` looks at any wheel",
            )
        return report

    def _request(self, pip_conf: Path | None, contexts: Iterable[str]) -> BakeRequest:
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
            targets=self.targets,
            environment=self.oven.environment,
            variables={
                **self.plan.values(),
                "DEST": str(self.state / "stage"),
                "CA_BUNDLE": str(ca_bundle or ""),
                "PIP_CONF": str(pip_conf or ""),
                **self.told.variables,
            },
            state=self.state,
            overrides=(*map(str, self.plan.overrides), *contexts),
            builder=self.options.builder,
            no_cache=self.options.no_cache,
            pull=self.options.pull,
            reads=(ca_bundle,) if ca_bundle else (),
            mask=self.told.mask,
        )

    def _output_ignored(self) -> tuple[str, ...]:
        """An output folder inside the project must not change what the next bake sees."""
        output, root = (self.options.output or self.root / self.plan.output).absolute(), self.root.absolute()
        if not output.is_relative_to(root):
            return ()
        pattern = ignored_output(output.relative_to(root).as_posix())
        return (pattern,) if pattern and pattern not in self.plan.ignore else ()

    def _audited(self, stage: Path, outcome: BakeOutcome) -> tuple[dict[str, tuple[Verdict, ...]], list[str]]:
        """Return the wheels that keep their promise by cell, and what is wrong with the others."""
        finished = [
            target.cell
            for target in self.targets
            if target.kind is Kind.WHEEL and all(self._done(other, outcome) for other in self._of(target.cell))
        ]
        memory = self.oven.places.cache / "audited"
        promised = device_promises(self.plan)

        def look(cell: Cell) -> tuple[list[Verdict], list[str]]:
            try:
                files = stage_files(stage / cell.id)
                each = promises(self.plan, cell, promised.get(cell.id), files)
                found = [audit(path, promise, memory) for path, promise in zip(files, each, strict=True)]
            except AuditError as error:
                return [], [f"{cell.id}: {error.message}", *error.details]
            faults = [f"{cell.id}: {item.path.name}: {fault}" for item in found for fault in item.faults]
            if not faults:
                # Only what the audit found sound is unpacked once more.
                faults = [f"{cell.id}: {path.name}: {leak}" for path in files for leak in leaks(path, self.told.mask)]
            return found, faults

        with ThreadPoolExecutor() as pool:
            results = list(zip(finished, pool.map(look, finished), strict=True))
        good = {cell.id: tuple(found) for cell, (found, faults) in results if not faults}
        return good, [fault for _, (_, faults) in results for fault in faults]

    def _of(self, cell: Cell) -> list[Target]:
        """Return the targets that a cell's wheel must pass: also those of other cells that it serves."""
        return [target for target in self.targets if target.cell.built_by == cell.id]

    def _done(self, target: Target, outcome: BakeOutcome) -> bool:
        return outcome.targets[target.name].result is Result.DONE

    def _target(
        self, target: Target, outcome: BakeOutcome, wheels: Sequence[Verdict], published: Mapping[Path, Path]
    ) -> TargetReport:
        told = outcome.targets[target.name]
        mine = wheels if target.kind is Kind.WHEEL else ()
        return TargetReport(
            name=target.name,
            cell=target.cell.id,
            result=told.result.value,
            seconds=told.seconds,
            steps=told.steps,
            cached=told.cached,
            log=told.log if told.log.exists() else None,
            wheels=tuple(PublishedWheel(published[item.path], item.sha256, item.size, item.warnings) for item in mine),
        )
