"""Runs the tasks of a plan with a backend: starts what is due, finishes what is built, retries, records every result."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from bakery.core.durations import duration
from bakery.core.errors import BakeryError, EngineError, InterruptedBake, OutputError
from bakery.core.names import Kind
from bakery.engine.memory_peaks import Peaks
from bakery.plan.values import Json
from bakery.runs import cell_inputs, report_page
from bakery.runs.audited import AuditResult
from bakery.runs.buildx.bake_outcome import BakeFailure, BakeOutcome, Failure
from bakery.runs.buildx.failures import is_transient, went_away
from bakery.runs.cell_tasks import CellState, CellTask, publish_groups
from bakery.runs.conclusion import built_target
from bakery.runs.context import RunContext
from bakery.runs.finish import Finisher, changed_while_built
from bakery.runs.journal import Journal, Record, Result, open_journal
from bakery.runs.processes import Signals
from bakery.runs.publish import NameTaken
from bakery.runs.records.recorder import Recorder
from bakery.runs.run_options import CellSelection
from bakery.runs.run_report import CellFailure, RunReport, finished_target
from bakery.runs.same_name import SameNames
from bakery.runs.scheduler import Schedule, State, Try, delay
from bakery.runs.tag_differences import run_warnings

if TYPE_CHECKING:
    from bakery.engine.nodes import Watch


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

    def recover(self, state: CellState, outcome: BakeOutcome) -> str:
        """Change a task's state so that another try may pass; return a description of that try, empty for none."""

    def stage_keys(self, task: CellTask) -> Mapping[str, str]:
        """Return stage → digest of its inputs, for the stages of a task."""

    def error(self, task: CellTask, outcome: BakeOutcome) -> BakeryError:
        """Return the error of a task that failed."""


MAX_PARALLEL_AUDITS = 4


@dataclass(slots=True)
class Runner:
    """Runs the tasks of a context.

    Attributes:
        signals: the first one ends the run.
        watch: asks the nodes whether they answer; None for the engine.
        peaks: measures the memory of cells; None if that is not possible.
        states: task → its state.
        timed_out: the time limit of the run is over.
    """

    context: RunContext
    schedule: Schedule
    backend: Backend
    finisher: Finisher
    signals: Signals
    watch: Watch | None = None
    peaks: Peaks | None = None
    states: dict[str, CellState] = field(init=False)
    timed_out: bool = field(default=False, init=False)
    _groups: Mapping[str, Sequence[str]] = field(init=False)
    _args: Mapping[str, Mapping[str, str]] = field(init=False)
    _failed_steps: dict[tuple[str, str, str], str] = field(default_factory=dict, init=False)
    _finishing: dict[Future[tuple[AuditResult, ...]], tuple[str, ...]] = field(default_factory=dict, init=False)
    _unexplained: list[tuple[str, BakeOutcome]] = field(default_factory=list, init=False)
    _same: SameNames = field(init=False)

    def __post_init__(self) -> None:
        tasks = self.context.tasks
        self.states = {name: CellState() for name in tasks}
        self._groups = publish_groups(tasks)
        self._same = SameNames(self.context, self.schedule, self._groups)
        self._args = {name: self.context.plan.args_of(task.cell) for name, task in tasks.items()}

    def run(self) -> None:
        """Run all tasks; ``states`` then has every result. Raises BakeError for what ends all: no docker, no log."""
        with ThreadPoolExecutor(MAX_PARALLEL_AUDITS) as pool:
            while not (self.schedule.over and not self._finishing and not self._same.held):
                self._check_time()
                self._check_nodes()
                for item in self.schedule.due(time.monotonic()):
                    self._start(item.name)
                if self.peaks:
                    self.peaks.measure({name: self._args[name] for name in self._running()})
                for name, outcome in self.backend.turn():
                    self._end_try(name, outcome, pool)
                for future in [future for future in self._finishing if future.done()]:
                    self._end_finish(future)
                self._settle(pool)
        for name, state in self.states.items():
            if state.result is Result.CANCELED and not (state.failed_in or state.skip_reason):
                state.skip_reason = self._skip_reason(name)

    def _start(self, name: str) -> None:
        state, entry = self.states[name], self.schedule.entries[name]
        state.node = entry.seat
        self.backend.start(self.context.tasks[name], state, cached=entry.item.cached)

    def _running(self) -> list[str]:
        return [name for name, entry in self.schedule.entries.items() if entry.state is State.RUNNING]

    def _check_time(self) -> None:
        deadline = self.context.options.deadline
        if self.signals.arrived:
            self.schedule.stop()
        elif not self.timed_out and deadline is not None and time.monotonic() >= deadline:
            self.timed_out = True
            self._stop()

    def _check_nodes(self) -> None:
        """Move the tasks of failed nodes to other nodes."""
        nodes = self.context.nodes
        if not (self.watch and nodes):
            return
        busy = {self.schedule.entries[name].seat for name in self._running()}
        for node, reason in self.watch.turn(busy, time.monotonic()).items():
            nodes.lost[node] = reason
            names = self.schedule.on(node)
            self.context.say(f"node {node} is gone: {reason}; built elsewhere: {', '.join(names) or 'nothing'}")
            self.schedule.lose(node)
            self.backend.stop(names)
        for name, outcome in [
            item for item in self._unexplained if not self.watch.doubts(self.schedule.entries[item[0]].seat)
        ]:
            self._unexplained.remove((name, outcome))
            self._fail_try(name, outcome)
        for name in self.schedule.strand():
            platform = self.context.tasks[name].cell.platform
            self._fail(name, EngineError(f"no node for {platform} is left", hint="start one, then --resume"))

    def _end_try(self, name: str, outcome: BakeOutcome, pool: ThreadPoolExecutor) -> None:
        state = self.states[name]
        state.outcome = outcome
        # Steps that were cached keep the time of the run that ran them.
        self.context.times[name] = {**self.context.times.get(name, {}), **outcome.times}
        state.tries = self.schedule.entries[name].tries
        for text in outcome.cache:
            if text not in state.cache_problems:
                state.cache_problems = (*state.cache_problems, text)
                self.context.say(f"{name}: layer cache: {text}")
        if all(target.result is Result.DONE for target in outcome.targets.values()):
            self.schedule.ended(name, Try.PASSED, time.monotonic())
            self._finish_group(name, pool)
        elif self.watch and outcome.failures and all(map(went_away, outcome.failures)):
            self.watch.doubt(state.node)
            self._unexplained.append((name, outcome))
        else:
            self._fail_try(name, outcome)

    def _fail_try(self, name: str, outcome: BakeOutcome) -> None:
        state = self.states[name]
        failures = outcome.failures
        now = time.monotonic()
        nodes = self.context.nodes
        if outcome.given_up:
            self.schedule.ended(name, Try.LOST, now)
            return
        if nodes and state.node in nodes.lost and all(map(is_transient, failures)):
            state.lost_nodes = (*state.lost_nodes, state.node)
            self.schedule.ended(name, Try.LOST, now)
            return
        if failures and not self.schedule.stopped and (next_try := self.backend.recover(state, outcome)):
            self.context.say(f"{name}: {BakeFailure(outcome).message}; trying again {next_try}")
            self.schedule.ended(name, Try.LOST, now)
            return
        may_pass = bool(failures) and all(map(is_transient, failures))
        self.schedule.ended(name, Try.AGAIN if may_pass else Try.FAILED, now)
        if self.schedule.entries[name].state is State.WAITING:
            wait = duration(delay(state.tries))
            self.context.say(f"{name}: {BakeFailure(outcome).message}; try {state.tries + 1} in {wait}")
        elif failures and not self._failed_elsewhere(name, failures):
            self._fail(name, self.backend.error(self.context.tasks[name], outcome))
            self._skip_sharing(name, failures)

    def _steps(self, name: str, failures: Iterable[Failure]) -> list[tuple[str, str, str]]:
        """Return (stage, key of the stage, step) of failed steps."""
        keys = self.backend.stage_keys(self.context.tasks[name])
        return [(item.stage, keys[item.stage], item.work or item.step) for item in failures if item.stage in keys]

    def _failed_elsewhere(self, name: str, failures: Sequence[Failure]) -> bool:
        """Return whether all failed steps failed in another task before: BuildKit runs a shared step once."""
        steps = self._steps(name, failures)
        if len(steps) < len(failures) or not all(step in self._failed_steps for step in steps):
            return False
        self._skip(name, steps[0])
        return True

    def _skip_sharing(self, name: str, failures: Sequence[Failure]) -> None:
        """Skip the waiting tasks that need a step that failed."""
        steps = self._steps(name, failures)
        self._failed_steps.update(dict.fromkeys(steps, name))
        for other, task in self.context.tasks.items():
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
        self.finisher.failed(self.context.tasks[name], self.peak(name))

    def _finish_group(self, name: str, pool: ThreadPoolExecutor) -> None:
        """Finish the tasks that share a wheel, once all of them passed; one that serves other cells waits for these."""
        builder = self.context.tasks.get(self.context.tasks[name].cell.built_by)
        members = self._groups[name]
        has_passed = all(self.schedule.entries[member].state is State.PASSED for member in members)
        if has_passed and not (builder and self._same.hold(builder.cell)):
            self._finish(tuple(members), pool)

    def _settle(self, pool: ThreadPoolExecutor) -> None:
        """Finish the wheels that waited for other cells, or refuse them."""
        for ready in self._same.settle():
            for name, error in ready.errors.items():
                self._fail(name, error)
            if not (ready.errors or ready.missing):
                self._finish(ready.members, pool)
            for name in ready.members if ready.missing else ():
                state = self.states[name]
                if not state.error:
                    self.finisher.held_back(self.context.tasks[name], self.peak(name))
                    state.skip_reason = f"{ready.missing} failed, and this wheel is for it, too"

    def _finish(self, members: tuple[str, ...], pool: ThreadPoolExecutor) -> None:
        tasks = [self.context.tasks[member] for member in members]
        peaks = {member: self.peak(member) for member in members}
        self._finishing[pool.submit(self.finisher.finish, tasks, peaks, self._metadata(tasks))] = members

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
        builder = self.context.tasks[members[0]].cell.built_by
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
            if self.context.tasks[member].has(Kind.WHEEL):
                self.states[member].wheels = wheels

    def _fail(self, name: str, error: BakeryError) -> None:
        state = self.states[name]
        state.result, state.error = Result.FAILED, error
        self.finisher.failed(self.context.tasks[name], self.peak(name))
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
    context: RunContext,
    backend: Backend,
    schedule: Schedule,
    signals: Signals,
    *,
    recorder: Recorder | None = None,
    watch: Watch | None = None,
    peaks: Peaks | None = None,
) -> RunReport:
    """Run the tasks of a context, and report all of its targets. Raises BakeryError for what ends all tasks."""
    started = time.monotonic()
    started_cells = [_unfinished(context, cell) for task in context.tasks.values() for cell in task.cells]
    journal = open_journal(context.state_folder, context.plan.recipe, started_cells)
    if recorder:
        _write_inputs(context, journal, recorder)
    finisher = Finisher(context, journal, recorder)
    runner = Runner(context, schedule, backend, finisher, signals, watch, peaks)
    runner.run()
    if recorder and recorder.materials:
        # Without a lock, they are known after the bake.
        _write_inputs(context, journal, recorder)
    report = _report(context, runner, time.monotonic() - started)
    try:
        report.write()
        report_page.write(context.folder)
    except OutputError as error:
        # The wheels are published, and `wheel-bakery report` can write the page later.
        context.say(f"no report of this run: {error}")
    return report


def _write_inputs(context: RunContext, journal: Journal, recorder: Recorder) -> None:
    inputs = cell_inputs.inputs_of(context.plan, context.tasks.values(), {**context.locked, **recorder.materials})
    cell_inputs.write(journal.path, context.folder.name, context.source.short, inputs)


def _unfinished(context: RunContext, cell: str) -> Record:
    """Return the record of a cell that is built now. One that failed did so until it ends: ``--failed`` looks for it."""
    peak, times, last = context.peaks.get(cell, 0), context.times.get(cell, {}), context.previous.get(cell)
    result = Result.FAILED if last and last.result is Result.FAILED else Result.CANCELED
    return Record(cell, context.keys[cell], result, peak, times=times)


def _report(context: RunContext, runner: Runner, seconds: float) -> RunReport:
    states = {cell: runner.states[name] for name, task in context.tasks.items() for cell in task.cells}
    builders = {cell: name for name, task in context.tasks.items() for cell in task.cells}
    outcomes = [state.outcome for state in runner.states.values() if state.outcome]
    rows = [
        finished_target(target, context.finished[target.cell.id], context.output)
        if target.cell.id in context.finished
        else replace(
            built_target(target, states[target.cell.id], context.output), memory=runner.peak(builders[target.cell.id])
        )
        for target in context.targets
        if context.options.selection is not CellSelection.FAILED or target.cell.id not in context.finished
    ]
    return RunReport(
        recipe=context.plan.recipe,
        targets=tuple(rows),
        output=context.output,
        state=context.folder,
        seconds=seconds,
        started=time.time() - seconds,
        failures=tuple(
            CellFailure(
                name, state.error, tuple(other for other, one in runner.states.items() if one.failed_in == name)
            )
            for name, state in runner.states.items()
            if state.error
        ),
        stopped=runner.signals.name or ("timeout" if runner.timed_out else ""),
        replaced=dict(runner.finisher.replaced),
        printed=tuple(sorted({name for outcome in outcomes for name in outcome.printed})),
        warnings=(
            *run_warnings(context.root, context.plan, rows),
            *((changed_while_built(runner.finisher.changed),) if runner.finisher.changed else ()),
            *runner.finisher.left,
        ),
    )
