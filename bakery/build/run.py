"""One run of one recipe in its folder: bake what is to be baked, publish what passes, report on all."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bakery.build.buildx.bake import BakeRequest
from bakery.build.buildx.listener import Listener
from bakery.build.buildx.log_files import LogFiles
from bakery.build.buildx.progress import Board
from bakery.build.cell_tasks import Machine, Work, items, made_of, together
from bakery.build.finish import Finisher
from bakery.build.journal import Record, open_journal
from bakery.build.local_layer_cache import LocalCaches
from bakery.build.lock.failure import failure
from bakery.build.lock.pins import context_of
from bakery.build.lock.session import Bench, Pins
from bakery.build.loop import Runner
from bakery.build.options import Again, Options
from bakery.build.processes import caught
from bakery.build.records import buildkit as recorded
from bakery.build.records.buildkit import image_purl
from bakery.build.records.recorder import Recorder
from bakery.build.report import CellFailure, RunReport, baked_target, kept_target
from bakery.build.resume import carried
from bakery.build.run_files import write_run_files
from bakery.build.scheduler import Item, Limits, Schedule, Seat, unknown
from bakery.build.secrets.read import Revealed
from bakery.core.names import MACHINES, CacheBackend
from bakery.engine.cache_scope import cache_scope
from bakery.engine.memory_peaks import Peaks, is_here
from bakery.engine.nodes import Nodes
from bakery.engine.oci_layouts import Layout
from bakery.engine.session import EngineSession
from bakery.plan.cells import Image, Target
from bakery.plan.materials_targets import beside, overrides
from bakery.plan.model import Plan, ignored_output
from bakery.plan.stage_digests import Lineage

USABLE = 0.85
"""The share of an engine's memory that compilers may use, as ``with-jobs`` has it, too."""


@dataclass(frozen=True, slots=True)
class Run:
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
    engine: EngineSession
    state: Path
    known: Mapping[str, Record]
    pip_conf: Path | None
    secrets: Revealed
    pins: Pins
    bench: Bench

    def go(self, listener: Listener, targets: Sequence[Target], kept: Mapping[str, Record]) -> RunReport:
        """Bake what is to be baked; report on all ``targets``."""
        began = time.monotonic()
        caches = LocalCaches(self.root, self.plan, self.keys)
        caches.check()
        request = self._request()
        schedule = self._schedule()
        recorder = Recorder(
            plan=self.plan,
            root=self.root,
            output=self.output,
            state=self.state,
            environment=self.engine.environment,
            built_on=lambda cell: self._node(schedule.seat(cell.id)),
            sent=self._names_of_sent(),
        )
        lineage = Lineage(self.plan)
        cells = {cell.id for cell in self.plan.cells}
        journal = open_journal(self.bench.state, self.plan.recipe, carried(self.known, self._begun, cells))
        board = Board([target.name for work in self.works.values() for target in work.targets])
        with caught() as signals, LogFiles(request.logs) as logs:
            finisher = Finisher(
                plan=self.plan,
                root=self.root,
                stage=request.stage,
                output=self.output,
                memory=self.engine.paths.cache / "audited",
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
                error=lambda outcome: failure(outcome, self._lock),
                caches=caches,
                say=self.engine.say,
                signals=signals,
                deadline=self.options.deadline,
                peaks=Peaks() if is_here(self.engine.environment) and not self.engine.nodes else None,
                nodes=self.engine.nodes,
                imports=self._imports,
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
        if self.engine.nodes:
            return self._spread(self.engine.nodes, keep_going=keep_going)
        if len(self.works) < 2:
            return Schedule([Item(name) for name in self.works], Limits(1, 0, self.options.retries, keep_going))
        info = self.engine.info
        machine = Machine(info.cpus, round(info.memory * USABLE / 1e6))
        limits = Limits(self.options.parallel or machine.cores, machine.memory, self.options.retries, keep_going)
        found = items(self.plan, self.works.values(), machine, self._learnt)
        if limits.parallel > 1 and (number := unknown(found)):
            self.engine.say(
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

    @property
    def _begun(self) -> dict[str, str]:
        return {name: self.keys[name] for name in self.works}

    def _request(self) -> BakeRequest:
        """Return the request of all targets; that of a cell is a part of it."""
        # The files of this very plan, beside the run's logs: what is committed may be out of date.
        outside = self.options.state is not None
        place = self.state.absolute() if outside else self.state.relative_to(self.root)
        own = replace(
            self.plan,
            dockerfile=str(place / "Dockerfile"),
            bakefile=str(place / "bake.hcl"),
            ignore=(*self.plan.ignore, *self._output_ignored()),
        )
        # A bake writes what it needs beside its logs; the project's own files are written by `generate` alone.
        programs = write_run_files(self.state if outside else self.root, own, self.state)
        ca_bundle = self.engine.ca_bundle
        return BakeRequest(
            root=self.root,
            bakefile=Path(own.bakefile),
            targets=tuple(target for work in self.works.values() for target in work.targets),
            environment={**self.engine.environment, **self.pins.environment},
            variables={
                **self.plan.values(),
                "DEST": str(self.state / "stage"),
                "CA_BUNDLE": str(ca_bundle or ""),
                "PIP_CONF": str(self.pip_conf or ""),
                **self.secrets.variables,
            },
            state=self.state,
            scope=cache_scope(self.engine.environment, self.root, self.plan.recipe),
            overrides=(*map(str, self.plan.overrides), programs),
            builder=self.options.builder,
            no_cache=self.options.no_cache,
            pull=self.options.pull,
            timeout_s=self.options.cell_timeout_s,
            defer_errors=self._defers_errors(),
            reads=(*(path for path in (ca_bundle, self.options.state) if path), *self.pins.reads),
            mask=self.secrets.mask,
        )

    @property
    def _imports(self) -> bool:
        """Whether cells are baked with what a layer cache has."""
        asked = any(override.key == "cache-from" and override.value for override in self.plan.overrides)
        return asked or self.plan.cache.backend is not CacheBackend.NONE

    def _defers_errors(self) -> bool:
        """Whether the targets of one cell shall not cancel each other, and buildx can do that."""
        several = any(len(work.targets) > 1 for work in self.works.values())
        return several and self._keeps_going and self.engine.offers_execution

    @property
    def _keeps_going(self) -> bool:
        return len(self.works) > 1 if self.options.keep_going is None else self.options.keep_going

    def _of(self, request: BakeRequest, work: Work, node: str) -> BakeRequest:
        also = beside(self.plan, work.targets)
        every = (*work.targets, *also)
        contexts = [override for target in every for override in self.pins.overrides[target.name]]
        contexts += [override for target in also for override in overrides(self.plan, target)]
        own = replace(request, targets=work.targets, beside=also, overrides=(*request.overrides, *contexts))
        if not (node and self.engine.nodes):
            return own
        layouts = self._sent(work)
        sent = [
            f"{target.name}.contexts.{context_of(image, target)}={layouts[image].context}"
            for target in every
            for image in target.images
            if image in layouts
        ]
        return replace(
            own,
            builder=self.engine.nodes.node(node).builder,
            overrides=(*own.overrides, *sent),
            reads=(*own.reads, self.engine.layouts.folder),
        )

    def _sent(self, work: Work) -> dict[Image, Layout]:
        """Return the base images of a cell that only this machine's engine has."""
        found = {image: self.engine.layouts.of(self.bench.name(image), image.platform) for image in work.cell.images}
        return {image: layout for image, layout in found.items() if layout}

    def _names_of_sent(self) -> dict[str, str]:
        """Return sha256 → package URL of all images that nodes are sent."""
        if not self.engine.nodes:
            return {}
        return {
            layout.digest.removeprefix("sha256:"): image_purl(self.bench.name(image), image.platform)
            for work in self.works.values()
            for image, layout in self._sent(work).items()
        }

    def _node(self, name: str) -> recorded.Machine | None:
        """Return who builds on a node, for the record."""
        seats = self.engine.nodes.seats if self.engine.nodes else ()
        found = next((seat for seat in seats if seat.node.name == name), None)
        if found is None:
            return None
        own = found.platforms[0] if found.platforms else ""
        return recorded.Machine(found.version, "", f"linux/{MACHINES.get(own, own)}", "buildkit")

    @property
    def _lock(self) -> str:
        """What the build is held to, in words; empty for nothing."""
        return "" if not self.pins.locked else self.options.held.record if self.options.held else self.plan.lock

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
            kept_target(target, kept[target.cell.id], self.output)
            if target.cell.id in kept
            else baked_target(target, runner.told[target.cell.id], self.output)
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
