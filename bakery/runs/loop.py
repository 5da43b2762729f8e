"""Runs the tasks of a plan with a backend: starts what is due, finishes what is built, retries, records every result."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from bakery.core.durations import duration
from bakery.core.errors import BakeryError, EngineError, InterruptedBake, OutputError
from bakery.core.target_kinds import Kind
from bakery.engine.memory_peaks import Peaks
from bakery.plan.values import Json
from bakery.runs import cell_inputs, report_page
from bakery.runs.audited import AuditResult
from bakery.runs.buildx.bake_outcome import BakeOutcome, Failure
from bakery.runs.buildx.failures import BakeFailure, is_transient, went_away
from bakery.runs.cell_tasks import CellState, CellTask, Recovery, publish_groups
from bakery.runs.conclusion import built_target
from bakery.runs.finish import Finisher
from bakery.runs.journal import Record, Result
from bakery.runs.lock.model import Materials
from bakery.runs.processes import Signals
from bakery.runs.publish import NameTaken
from bakery.runs.run_options import CellSelection
from bakery.runs.run_report import CellFailure, RunReport, about, finished_target
from bakery.runs.same_name import SameNames
from bakery.runs.scheduler import Schedule, State, Try, delay
from bakery.runs.selection import Selection
from bakery.runs.wheel_tags import run_warnings
from wheel_audit.text import listed

if TYPE_CHECKING:
    from bakery.engine.nodes import Nodes, Watch


class Backend(Protocol):
    """Builds tasks in parallel; `Runner` calls it from one thread."""

    def start(self, task: CellTask, state: CellState, *, cached: bool) -> None:
        """Start one try of a task; ``cached``: nothing of it should have to run.

        Raises BakeryError if the program is missing or the folder cannot be written.
        """

    def turn(self) -> list[tuple[str, BakeOutcome]]:
        """Wait for a tenth of a second at most; return the tasks that ended. The first signal ends all tasks."""

    def stop(self, names: Collection[str] | None = None) -> None:
        """End some tasks, or all of them; `turn` returns them."""

    def recovery(self, state: CellState, outcome: BakeOutcome) -> Recovery | None:
        """Return how another try may pass at once; None if it is not known."""

    def stage_keys(self, task: CellTask) -> Mapping[str, str]:
        """Return stage → digest of its inputs, for the stages of a task."""

    def error(self, task: CellTask, outcome: BakeOutcome) -> BakeryError:
        """Return the error of a task that failed."""


class Verdict(Enum):
    """What became of one try of a task."""

    PASSED = auto()
    UNCLEAR = auto()
    """Its node may be gone; `Watch` finds out."""
    GIVEN_UP = auto()
    """A command would have run in a bake of cached steps; the task is baked by itself."""
    NODE_LOST = auto()
    RECOVERS = auto()
    """The backend knows another way."""
    RETRY = auto()
    """Later: the failure was one of the network or the engine."""
    FAILED_ELSEWHERE = auto()
    """All of its failed steps failed in another task before: BuildKit runs a shared step once."""
    FAILED = auto()
    CANCELED = auto()


def judge(
    outcome: BakeOutcome, *, is_watched: bool, has_node: bool, recovers: bool, may_retry: bool, failed_before: bool
) -> Verdict:
    """Return what became of a try.

    Args:
        is_watched: it ran on a node that may be gone.
        has_node: its node is not known to be gone.
        recovers: the backend knows another way.
        may_retry: it has retries left.
        failed_before: all of its failed steps failed in another task.
    """
    failures, is_passing = outcome.failures, all(map(is_transient, outcome.failures))
    # The first that holds.
    verdicts = (
        (Verdict.PASSED, all(target.result is Result.DONE for target in outcome.targets.values())),
        (Verdict.UNCLEAR, is_watched and bool(failures) and all(map(went_away, failures))),
        (Verdict.GIVEN_UP, outcome.given_up),
        (Verdict.NODE_LOST, is_passing and not has_node),
        (Verdict.CANCELED, not failures),
        (Verdict.RECOVERS, recovers),
        (Verdict.RETRY, is_passing and may_retry),
        (Verdict.FAILED_ELSEWHERE, failed_before),
    )
    return next((verdict for verdict, holds in verdicts if holds), Verdict.FAILED)


MAX_PARALLEL_AUDITS = 4


@dataclass(slots=True)
class Runner:
    """Runs the tasks of a selection.

    Attributes:
        signals: the first one ends the run.
        nodes: None for the engine.
        watch: asks the nodes whether they answer; None for the engine.
        peaks: measures the memory of cells; None if that is not possible.
        states: task → its state.
        timed_out: the time limit of the run is over.
    """

    chosen: Selection
    schedule: Schedule
    backend: Backend
    finisher: Finisher
    signals: Signals
    nodes: Nodes | None = None
    watch: Watch | None = None
    peaks: Peaks | None = None
    states: dict[str, CellState] = field(init=False)
    timed_out: bool = field(default=False, init=False)
    _groups: Mapping[str, Sequence[str]] = field(init=False)
    _args: Mapping[str, Mapping[str, str]] = field(init=False)
    _failed_steps: dict[tuple[str, str, str], str] = field(default_factory=dict, init=False)
    """(stage, key of the stage, step) → the task in which it failed."""
    _finishing: dict[Future[tuple[AuditResult, ...]], tuple[str, ...]] = field(default_factory=dict, init=False)
    _unclear: list[tuple[str, BakeOutcome]] = field(default_factory=list, init=False)
    _same: SameNames = field(init=False)
    _waiting: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)
    """Task whose wheel waits for other cells → the names of its wheels."""
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(MAX_PARALLEL_AUDITS), init=False)

    def __post_init__(self) -> None:
        tasks = self.chosen.tasks
        self.states = {name: CellState() for name in tasks}
        self._groups = publish_groups(tasks)
        self._same = SameNames(self.chosen, self.finisher.folder / "stage", self.schedule, self._groups)
        self._args = {name: self.chosen.plan.args_of(task.cell) for name, task in tasks.items()}

    def run(self) -> None:
        """Run all tasks; ``states`` then has every result. Raises BakeError for what ends all: no docker, no log."""
        with self._pool:
            while not (self.schedule.over and not self._finishing and not self._waiting):
                self._check_time()
                self._check_nodes()
                for item in self.schedule.due(time.monotonic()):
                    state, entry = self.states[item.name], self.schedule.entries[item.name]
                    state.node = entry.worker
                    self.backend.start(self.chosen.tasks[item.name], state, cached=entry.item.cached)
                if self.peaks:
                    self.peaks.measure({name: self._args[name] for name in self._running()})
                for name, outcome in self.backend.turn():
                    self._end_try(name, outcome)
                for future in [future for future in self._finishing if future.done()]:
                    self._end_finish(future)
                self._end_waiting()
        for name, state in self.states.items():
            if state.result is Result.CANCELED and not (state.failed_in or state.skip_reason):
                state.skip_reason = self._skip_reason(name)

    def _running(self) -> list[str]:
        return [name for name, entry in self.schedule.entries.items() if entry.state is State.RUNNING]

    def _check_time(self) -> None:
        deadline = self.chosen.run.options.deadline
        if self.signals.arrived:
            self.schedule.stop()
        elif not self.timed_out and deadline is not None and time.monotonic() >= deadline:
            self.timed_out = True
            self._stop()

    def _check_nodes(self) -> None:
        """Move the tasks of failed nodes to other nodes."""
        if not (self.watch and self.nodes):
            return
        busy = {self.schedule.entries[name].worker for name in self._running()}
        for node, reason in self.watch.turn(busy, time.monotonic()).items():
            self.nodes.lost[node] = reason
            names = self.schedule.on(node)
            self.chosen.run.say(f"node {node} is gone: {reason}; built elsewhere: {', '.join(names) or 'nothing'}")
            self.schedule.lose(node)
            self.backend.stop(names)
        for name, outcome in list(self._unclear):
            if not self.watch.doubts(self.schedule.entries[name].worker):
                self._unclear.remove((name, outcome))
                self._act(name, outcome, is_watched=False)
        for name in self.schedule.strand():
            platform = self.chosen.tasks[name].cell.platform
            self._fail(name, EngineError(f"no node for {platform} is left", hint="start one, then --resume"))

    def _end_try(self, name: str, outcome: BakeOutcome) -> None:
        state, times = self.states[name], self.finisher.times
        state.outcome = outcome
        # Steps that were cached keep the time of the run that ran them.
        times[name] = {**times.get(name, {}), **outcome.times}
        state.tries = self.schedule.entries[name].tries
        for text in outcome.cache:
            if text not in state.cache_problems:
                state.cache_problems = (*state.cache_problems, text)
                self.chosen.run.say(f"{name}: layer cache: {text}")
        self._act(name, outcome, is_watched=self.watch is not None)

    def _act(self, name: str, outcome: BakeOutcome, *, is_watched: bool) -> None:
        """Judge a try, and do what follows."""
        state, schedule, say, now = self.states[name], self.schedule, self.chosen.run.say, time.monotonic()
        steps = self._steps(name, outcome.failures)
        recovery = self.backend.recovery(state, outcome) if outcome.failures and not schedule.stopped else None
        verdict = judge(
            outcome,
            is_watched=is_watched,
            has_node=not (self.nodes and state.node in self.nodes.lost),
            recovers=recovery is not None,
            may_retry=schedule.may_retry(name),
            failed_before=len(steps) == len(outcome.failures) and all(step in self._failed_steps for step in steps),
        )
        match verdict:
            case Verdict.PASSED:
                schedule.ended(name, Try.PASSED, now)
                self._finish_group(name)
            case Verdict.UNCLEAR if self.watch:
                self.watch.doubt(state.node)
                self._unclear.append((name, outcome))
            case Verdict.GIVEN_UP:
                schedule.ended(name, Try.LOST, now)
            case Verdict.NODE_LOST:
                state.lost_nodes = (*state.lost_nodes, state.node)
                schedule.ended(name, Try.LOST, now)
            case Verdict.RECOVERS if recovery:
                message = BakeFailure(outcome).message
                state.recoveries = (*state.recoveries, recovery)
                if recovery is Recovery.NO_LAYER_CACHE:
                    state.cache_problems = (*state.cache_problems, message)
                say(f"{name}: {message}; trying again {recovery}")
                schedule.ended(name, Try.LOST, now)
            case Verdict.RETRY:
                schedule.ended(name, Try.AGAIN, now)
                say(f"{name}: {BakeFailure(outcome).message}; try {state.tries + 1} in {duration(delay(state.tries))}")
            case Verdict.FAILED_ELSEWHERE:
                schedule.ended(name, Try.FAILED, now)
                self._skip(name, steps[0])
            case Verdict.FAILED:
                schedule.ended(name, Try.FAILED, now)
                self._fail(name, self.backend.error(self.chosen.tasks[name], outcome))
                self._skip_sharing(name, steps)
            case _:
                schedule.ended(name, Try.FAILED, now)

    def _steps(self, name: str, failures: Sequence[Failure]) -> list[tuple[str, str, str]]:
        """Return (stage, key of the stage, step) of failed steps."""
        keys = self.backend.stage_keys(self.chosen.tasks[name]) if failures else {}
        return [(item.stage, keys[item.stage], item.work or item.step) for item in failures if item.stage in keys]

    def _skip_sharing(self, name: str, steps: Sequence[tuple[str, str, str]]) -> None:
        """Skip the waiting tasks that need a step that failed."""
        self._failed_steps.update(dict.fromkeys(steps, name))
        for other, task in self.chosen.tasks.items():
            if steps and self.schedule.entries[other].state is State.WAITING:
                keys = self.backend.stage_keys(task)
                if step := next((step for step in steps if keys.get(step[0]) == step[1]), None):
                    self.schedule.skip(other)
                    self._skip(other, step)

    def _skip(self, name: str, step: tuple[str, str, str]) -> None:
        state = self.states[name]
        state.failed_in = self._failed_steps[step]
        state.skip_reason = f"skipped: it needs a step that failed in {state.failed_in}: {step[2]}"
        # In the journal it failed, so that `--failed` builds it again.
        self.finisher.write(self.chosen.tasks[name], Result.FAILED, self.peak(name))

    def _finish_group(self, name: str) -> None:
        """Finish the tasks that share a wheel, once all of them passed; one that serves other cells waits for these."""
        builder, members = self.chosen.tasks.get(self.chosen.tasks[name].cell.built_by), self._groups[name]
        if not all(self.schedule.entries[member].state is State.PASSED for member in members):
            return
        if builder and (names := self._same.names_to_wait_for(builder.cell)):
            self._waiting[builder.name] = names
        else:
            self._finish(tuple(members))

    def _end_waiting(self) -> None:
        """Finish the wheels that waited for other cells, or refuse them."""
        for ready in self._same.ready(self._waiting):
            members = tuple(member for builder in ready.builders for member in self._groups[builder])
            for builder in ready.builders:
                del self._waiting[builder]
                if ready.error:
                    self._fail(builder, ready.error)
            if not (ready.error or ready.missing):
                self._finish(members)
            for name in members if ready.missing else ():
                if not self.states[name].error:
                    self.finisher.write(self.chosen.tasks[name], Result.CANCELED, self.peak(name))
                    self.states[name].skip_reason = f"{ready.missing} failed, and this wheel is for it, too"

    def _finish(self, members: tuple[str, ...]) -> None:
        tasks = [self.chosen.tasks[member] for member in members]
        peaks = {member: self.peak(member) for member in members}
        self._finishing[self._pool.submit(self.finisher.finish, tasks, peaks, self._metadata(tasks))] = members

    def _metadata(self, tasks: Sequence[CellTask]) -> Mapping[str, Json]:
        """Return buildx's metadata of the target that built the wheel."""
        for task in tasks:
            for target in task.targets:
                outcome = self.states[task.name].outcome
                if target.kind is Kind.WHEEL and outcome:
                    return outcome.targets[target.name].metadata
        return {}

    def _end_finish(self, future: Future[tuple[AuditResult, ...]]) -> None:
        members = self._finishing.pop(future)
        builder = self.chosen.tasks[members[0]].cell.built_by
        try:
            wheels = future.result()
        except InterruptedBake:
            self._check_time()
            return
        except BakeryError as error:
            self._fail(builder if builder in members else members[0], error)
            if isinstance(error, OutputError) and not isinstance(error, NameTaken):
                # No other wheel could be published either.
                self._stop()
            return
        for member in members:
            self.states[member].result = Result.DONE
            if self.chosen.tasks[member].has(Kind.WHEEL):
                self.states[member].wheels = wheels

    def _fail(self, name: str, error: BakeryError) -> None:
        state = self.states[name]
        state.result, state.error = Result.FAILED, error
        self.finisher.write(self.chosen.tasks[name], Result.FAILED, self.peak(name))
        if not self.schedule.limits.keep_going:
            self._stop()

    def peak(self, name: str) -> int:
        """Return the peak memory of a task in MB; 0 if unknown."""
        return self.peaks.mb.get(name, 0) if self.peaks else 0

    def _stop(self) -> None:
        self.schedule.stop()
        self.backend.stop()

    def _skip_reason(self, name: str) -> str:
        """Return why a task was not built, if nothing in it failed."""
        states = {member: self.states[member] for member in self._groups[name]}
        failed = [member for member, state in states.items() if state.error or state.failed_in]
        if failed:
            return f"{failed[0]} failed, and they share a wheel"
        if self.signals.arrived:
            return f"interrupted by {self.signals.name}"
        return "the time limit of the run was reached" if self.timed_out else "stopped because another cell failed"


def run_tasks(
    finisher: Finisher,
    backend: Backend,
    schedule: Schedule,
    signals: Signals,
    *,
    nodes: Nodes | None = None,
    watch: Watch | None = None,
    peaks: Peaks | None = None,
) -> RunReport:
    """Run the tasks of a selection, and report all of its targets. Raises BakeryError for what ends all tasks."""
    started, chosen, recorder = time.monotonic(), finisher.chosen, finisher.recorder
    chosen.claim_finished()
    if recorder:
        _write_inputs(finisher, {})
    runner = Runner(chosen, schedule, backend, finisher, signals, nodes, watch, peaks)
    runner.run()
    if recorder and recorder.materials:
        # Without a lock, they are known after the bake.
        _write_inputs(finisher, recorder.materials)
    report = _report(runner, time.monotonic() - started)
    try:
        report.write()
        report_page.write(finisher.folder)
    except OutputError as error:
        # The wheels are published, and `wheel-bakery report` can write the page later.
        chosen.run.say(f"no report of this run: {error}")
    return report


def _write_inputs(finisher: Finisher, materials: Mapping[str, Materials]) -> None:
    chosen = finisher.chosen
    inputs = cell_inputs.inputs_of(chosen.plan, chosen.tasks.values(), {**chosen.locked, **materials})
    cell_inputs.write(finisher.journal.path, finisher.folder.name, chosen.source.short, inputs)


def unfinished(chosen: Selection) -> list[Record]:
    """Return the records of the cells that are built now; those that failed did so until they end, for ``--failed``."""
    records = []
    for cell in [cell for task in chosen.tasks.values() for cell in task.cells]:
        last = chosen.previous.get(cell) or Record(cell, "", Result.CANCELED)
        result = Result.FAILED if last.result is Result.FAILED else Result.CANCELED
        records.append(Record(cell, chosen.keys[cell], result, last.memory, times=last.times))
    return records


_SHOWN = 5
"""Changed files of the source that a warning names."""


def _report(runner: Runner, seconds: float) -> RunReport:
    chosen, run, finisher = runner.chosen, runner.chosen.run, runner.finisher
    builders = {cell: name for name, task in chosen.tasks.items() for cell in task.cells}
    rows = tuple(
        finished_target(target, chosen.finished[target.cell.id], run.output)
        if target.cell.id in chosen.finished
        else built_target(
            target, runner.states[builders[target.cell.id]], run.output, runner.peak(builders[target.cell.id])
        )
        for target in chosen.targets
        if run.options.selection is not CellSelection.FAILED or target.cell.id not in chosen.finished
    )
    skipped = {name: state.failed_in for name, state in runner.states.items() if state.failed_in}
    failures = tuple(
        CellFailure(name, state.error, tuple(other for other, failed in skipped.items() if failed == name))
        for name, state in runner.states.items()
        if state.error
    )
    outcomes = [state.outcome for state in runner.states.values() if state.outcome]
    warnings = [*run_warnings(run.root, chosen.plan, rows)]
    if finisher.changed:
        warnings.append(
            f"the source changed while it was built: {listed(finisher.changed, _SHOWN)}; wheels that end after that have "
            "no commit in their records, and the next run builds them again"
        )
    return RunReport(
        recipe=run.recipe,
        targets=rows,
        output=run.output,
        state=finisher.folder,
        seconds=seconds,
        started=time.time() - seconds,
        failures=failures,
        about=about(run.root),
        reference=chosen.plan.reference,
        stopped=runner.signals.name or ("timeout" if runner.timed_out else ""),
        replaced=dict(finisher.replaced),
        printed=tuple(sorted({name for outcome in outcomes for name in outcome.printed})),
        warnings=(*warnings, *finisher.left),
    )
