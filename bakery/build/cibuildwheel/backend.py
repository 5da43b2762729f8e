"""Builds tasks with cibuildwheel: one process for each wheel, which also tests it for every cell that shares it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from bakery.build.buildx.outcome import BakeOutcome, Failure, Result, TargetOutcome
from bakery.build.cell_tasks import CellState, CellTask
from bakery.build.cibuildwheel import process
from bakery.build.cibuildwheel.process import Build, Ended, Stop
from bakery.build.signals import Signals
from bakery.core.errors import BakeError

TURN_S = 0.1
"""Seconds that `CibuildwheelBackend.turn` waits at most."""


@dataclass(slots=True)
class _Running:
    """A build that runs."""

    task: CellTask
    build: Build
    stop: Stop
    future: Future[Ended]
    started: float


@dataclass(slots=True)
class CibuildwheelBackend:
    """Builds tasks with cibuildwheel.

    Attributes:
        build_of: returns how a task is built.
        environment: of cibuildwheel.
        line: receives each line that cibuildwheel prints, in a thread of its own.
    """

    build_of: Callable[[CellTask], Build]
    environment: Mapping[str, str]
    line: Callable[[str], None]
    signals: Signals
    pool: ThreadPoolExecutor
    _running: dict[str, _Running] = field(default_factory=dict, init=False)

    def start(self, task: CellTask, state: CellState) -> None:
        """Start cibuildwheel."""
        build, stop = self.build_of(task), Stop()
        future = self.pool.submit(process.build, build, self.environment, self.line, stop)
        self._running[task.name] = _Running(task, build, stop, future, time.monotonic())

    def turn(self) -> list[tuple[str, BakeOutcome]]:
        """Return the tasks that ended; a first signal ends all of them, a second one kills them.

        Raises:
            EngineError: cibuildwheel cannot be started.
        """
        if self.signals.arrived:
            self.stop()
            if len(self.signals.arrived) > 1:
                for running in self._running.values():
                    running.stop.killed.set()
        wait([running.future for running in self._running.values()], timeout=TURN_S)
        ended = [name for name, running in self._running.items() if running.future.done()]
        # Ctrl-C reaches cibuildwheel, too, which may end before it is asked to.
        interrupted = bool(self.signals.arrived)
        return [(name, _outcome(self._running.pop(name), interrupted=interrupted)) for name in ended]

    def stop(self, names: Collection[str] | None = None) -> None:
        """End some tasks, or all of them."""
        for name, running in self._running.items():
            if names is None or name in names:
                running.stop.requested.set()

    def recover(self, state: CellState, outcome: BakeOutcome) -> str:
        """Return empty: cibuildwheel uses no layer cache."""
        return ""

    def stage_keys(self, task: CellTask) -> Mapping[str, str]:
        """Return nothing: tasks share no steps."""
        return {}

    def error(self, task: CellTask, outcome: BakeOutcome) -> BakeError:
        """Return the error of a build that failed."""
        (failure,) = outcome.failures
        return BakeError(f"{task.name}: {failure.error}", details=failure.tail, hint=failure.hint)


def _outcome(running: _Running, *, interrupted: bool) -> BakeOutcome:
    ended, log = running.future.result(), running.build.log
    stopped = ended.stopped or (interrupted and bool(ended.failure))
    names = tuple(target.name for target in running.task.targets)
    failures: tuple[Failure, ...] = ()
    if ended.late:
        failures = (Failure(names, "", "the time was over", (), log, "allow more with --cell-timeout"),)
    elif ended.failure and not stopped:
        lines = tuple(ended.failure.splitlines())
        failures = (Failure(names, "", "cibuildwheel failed", lines, log, f"the log: {log}"),)
    result = Result.FAILED if failures else Result.CANCELED if stopped else Result.DONE
    seconds = time.monotonic() - running.started
    targets = {name: TargetOutcome(name, result, seconds, steps=1, cached=0, log=log, metadata={}) for name in names}
    return BakeOutcome(targets, seconds, (), failures)
