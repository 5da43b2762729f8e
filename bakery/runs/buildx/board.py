"""The cells of a run, as displays show them: what each does, and how long it still takes. No input or output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from bakery.runs.buildx.progress import Event, Progress, Step, TargetState


@dataclass(frozen=True, slots=True)
class CellProgress:
    """The progress of one cell, whose targets share steps.

    Attributes:
        times: what steps do → seconds, as they took when they last ran.
    """

    name: str
    targets: Sequence[TargetState]
    times: Mapping[str, float]

    @property
    def steps(self) -> dict[str, Step]:
        """Digest → step, for all steps of the targets."""
        return {digest: step for target in self.targets for digest, step in target.steps.items()}

    @property
    def cached(self) -> int:
        """Steps that were cached."""
        return sum(step.cached for step in self.steps.values())

    @property
    def is_cached(self) -> bool:
        """Whether no command of it ran."""
        return all(target.is_cached for target in self.targets)

    @property
    def failure(self) -> Step | None:
        """The first step that failed by itself."""
        return next((target.failure for target in self.targets if target.failure), None)

    @property
    def started_at(self) -> float | None:
        """The local clock when its first step was seen running; None before."""
        return min((target.started_at for target in self.targets if target.started_at is not None), default=None)

    @property
    def finished_at(self) -> float | None:
        """The local clock when its last target ended; None before."""
        ends = [target.finished_at for target in self.targets]
        return None if None in ends else max((end for end in ends if end is not None), default=None)

    @property
    def running(self) -> Step | None:
        """The step to show of those that run: a command, or what began last; None if nothing runs."""
        # An export is no step of a stage.
        current = {target.current.digest: target.current for target in self.targets if target.current}
        steps = [step for step in {**current, **self.steps}.values() if step.running and not step.cached]
        return max(steps, key=lambda step: (step.is_command, step.seen_at or 0.0), default=None)

    @property
    def last(self) -> Step | None:
        """The command that began last; what else began last if there was none, and None before the first step."""
        steps = [target.current for target in self.targets if target.current]
        steps += [step for step in self.steps.values() if step.seen_at is not None]
        return max(steps, key=lambda step: (step.is_command, step.seen_at or 0.0), default=None)

    @property
    def last_line(self) -> str:
        """The newest line of the step that failed, or of a target that is not done."""
        if self.failure and (tail := self.failure.output.tail):
            return tail[-1]
        lines = (target.last_line for target in self.targets if target.finished_at is None or target.failure)
        return next(filter(None, lines), "")

    def elapsed(self, now: float) -> float:
        """Return the seconds from its start to its end, or to ``now`` (local clock)."""
        if self.started_at is None:
            return 0.0
        return (self.finished_at if self.finished_at is not None else now) - self.started_at

    def seconds_left(self, now: float) -> float:
        """Return how many seconds its steps will take if they take as long as last time; 0 if nobody knows.

        A step that counts its files takes as long for the others as for those that are done.
        """
        left = 0.0
        every = self.steps
        ahead = _ahead(every) if self.times else set()
        for work, seconds in self.times.items():
            steps = [step for step in every.values() if step.work == work]
            if any(step.digest in ahead for step in steps):
                counted = next((step for step in steps if step.running and _share(step)), None)
                if counted:
                    share = _share(counted)
                    left += _spent(counted, now) * (1 - share) / share
                else:
                    left += max(0.0, seconds - sum(_spent(step, now) for step in steps))
        return left


def _share(step: Step) -> float:
    """Return the share of a step's files that are done; 0 if it counts none, or too few to tell."""
    done, all_ = step.counter or (0, 0)
    return done / all_ if done > 1 and all_ else 0.0


def _ahead(steps: Mapping[str, Step]) -> set[str]:
    """Return the digests of the steps that run, or wait for one that does.

    Of the others that did not begin, BuildKit finds late that they are cached: when a step that runs needs them. Targets
    may have copies of a step, of which one runs.
    """
    done = {step.label.title for step in steps.values() if step.completed is not None and not step.error}
    running = {step.label.title for step in steps.values() if step.running} - done
    known: dict[str, bool] = {}

    def is_ahead(digest: str) -> bool:
        if digest not in known:
            known[digest] = False
            step = steps.get(digest)
            if step is not None and (title := step.label.title) not in done:
                known[digest] = title in running or any(map(is_ahead, step.inputs))
        return known[digest]

    return {digest for digest in steps if is_ahead(digest)}


def _spent(step: Step, now: float) -> float:
    return now - step.seen_at if step.running and step.seen_at is not None else step.seconds


def times_of(targets: Iterable[TargetState]) -> dict[str, float]:
    """Return what the steps that ran did → seconds. Time that several of them ran counts once, for the first one."""
    steps = {digest: step for target in targets for digest, step in target.steps.items()}
    spans = [
        (step.started, step.completed, step.work)
        for step in steps.values()
        if step.started is not None and step.completed is not None and not (step.cached or step.error)
    ]
    times: dict[str, float] = {}
    latest = 0.0
    for started, completed, work in sorted(spans):
        times[work] = times.get(work, 0.0) + max(0.0, completed - max(started, latest))
        latest = max(latest, completed)
    return {work: round(seconds, 1) for work, seconds in times.items() if seconds >= 0.1}


class Board:
    """All cells of a run.

    Args:
        targets: target → its cell.
        times: cell → what its steps do → seconds, as they took when they last ran.
    """

    def __init__(
        self, targets: Mapping[str, str], times: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    ) -> None:
        self.targets = {name: TargetState(name) for name in targets}
        self._cell_of = targets
        self._times = times

    def adopt(self, progress: Progress) -> None:
        """Show the targets of a bake from now on; of a target that is baked again, the newest state counts."""
        self.targets.update(progress.targets)

    def cell_of(self, target: str) -> str:
        """Return the cell of a target."""
        return self._cell_of.get(target, target)

    @property
    def cells(self) -> list[CellProgress]:
        """The cells, in the order of their targets."""
        members: dict[str, list[TargetState]] = {}
        for name, state in self.targets.items():
            members.setdefault(self.cell_of(name), []).append(state)
        return [CellProgress(name, states, self._times.get(name, {})) for name, states in members.items()]

    def seconds_left(self, now: float) -> float:
        """Return how many seconds the run still takes, if as many cells are baked at once as now; 0 if nobody knows."""
        cells = [cell for cell in self.cells if cell.finished_at is None and not cell.failure]
        running = {cell.name: cell.seconds_left(now) for cell in cells if cell.started_at is not None}
        waiting = [sum(cell.times.values()) for cell in cells if cell.started_at is None]
        if not all(running.values()) or not all(waiting) or not running:
            return 0.0
        return max(*running.values(), (sum(running.values()) + sum(waiting)) / len(running))


class Listener:
    """The interface of displays: receives all events of a run, always in one thread, and ignores them."""

    def start(self, board: Board) -> None:
        """Start; ``board`` always has the current state."""

    def line(self, raw: bytes, events: Sequence[Event], cell: str = "") -> None:
        """Process one line of the stream of a cell's bake, and its events."""

    def tick(self) -> None:
        """Update; called about ten times a second."""

    def finish(self) -> None:
        """End; always called, also after a failure."""
