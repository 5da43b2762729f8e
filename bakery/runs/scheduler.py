"""Decides which cell is baked when. It starts no process and reads no clock.

Cells run in parallel as far as cores and memory allow. A failed cell stops only the cells that depend on it. A try that
failed for a transient reason is repeated later.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bakery.core.target_kinds import Kind
from bakery.plan.model import Plan
from bakery.runs.cell_tasks import CellTask

FIRST_DELAY_S = 5.0
"""Seconds before the second try; each further one waits three times as long."""

LONGEST_DELAY_S = 120.0
"""The longest wait before a try, in seconds."""


class State(StrEnum):
    """The state of an item."""

    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Try(StrEnum):
    """How a try ended."""

    PASSED = "passed"
    FAILED = "failed"
    AGAIN = "again"
    """A transient failure."""
    LOST = "lost"
    """The worker was lost; the try does not count."""


@dataclass(frozen=True, slots=True)
class Item:
    """A cell, which one call bakes.

    Attributes:
        after: the item that must pass first; empty for none.
        memory: its peak memory in bytes; 0 if unknown.
        group: items of a group share slow stages.
        cached: its steps are expected in the engine's build cache, so it counts in no limit. After a lost try it does.
    """

    name: str
    after: str = ""
    memory: int = 0
    group: str = ""
    platform: str = ""
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Worker:
    """The engine or a node, with ``slots`` for parallel items; ``platforms`` is None for all."""

    name: str
    slots: int
    platforms: frozenset[str] | None = None

    def takes(self, item: Item) -> bool:
        """Whether it can build an item."""
        return self.platforms is None or item.platform in self.platforms


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run: ``memory`` in bytes for all parallel items, 0 for no limit; retries of transient failures."""

    parallel: int = 1
    memory: int = 0
    retries: int = 2
    keep_going: bool = True


@dataclass(slots=True)
class Entry:
    """The state of an item; ``due`` is the time of its next try, ``worker`` that of the last one."""

    item: Item
    index: int
    state: State = State.WAITING
    tries: int = 0
    due: float = float("-inf")
    worker: str = ""


@dataclass(slots=True)
class Schedule:
    """Schedules the items of one run, which have different names; no ``workers`` means one engine."""

    items: Sequence[Item]
    limits: Limits
    workers: Sequence[Worker] = ()
    stopped: bool = field(default=False, init=False)
    entries: dict[str, Entry] = field(init=False)
    _alive: list[Worker] = field(init=False)

    def __post_init__(self) -> None:
        self.entries = {item.name: Entry(item, index) for index, item in enumerate(self.items)}
        self._alive = list(self.workers) or [Worker("", self.limits.parallel)]

    def due(self, now: float) -> list[Item]:
        """Return the items to start now; they count as running."""
        begun: list[Item] = []
        while choice := self._next(now):
            entry, worker = choice
            entry.state = State.RUNNING
            entry.tries += 1
            entry.worker = worker.name
            begun.append(entry.item)
        return begun

    def ended(self, name: str, verdict: Try, now: float) -> None:
        """Record the end of a try."""
        entry = self.entries[name]
        if verdict is Try.PASSED:
            entry.state = State.PASSED
        elif verdict is Try.LOST and not self.stopped:
            entry.state = State.WAITING
            entry.tries -= 1
            entry.item = replace(entry.item, cached=False)
        elif verdict is Try.AGAIN and self.may_retry(name):
            entry.state = State.WAITING
            entry.due = now + delay(entry.tries)
        else:
            entry.state = State.FAILED
            self._skip_after(name)
            if not self.limits.keep_going:
                self.stop()

    def may_retry(self, name: str) -> bool:
        """Whether a try that failed for a transient reason is repeated."""
        return self.entries[name].tries <= self.limits.retries and not self.stopped

    def lose(self, worker: str) -> None:
        """Stop using a worker; the caller ends the items that run there with `Try.LOST`.

        Items that passed there are built again elsewhere if items of the same build are unfinished.
        """
        self._alive = [one for one in self._alive if one.name != worker]
        for entry in self._of(State.PASSED):
            family = self._family(entry.item)
            if entry.worker == worker and any(one.state in (State.WAITING, State.RUNNING) for one in family):
                entry.state = State.WAITING
                entry.tries -= 1

    def strand(self) -> list[str]:
        """Fail the items that no remaining worker can build, and return their names."""
        stranded = [
            entry for entry in self._of(State.WAITING) if not any(worker.takes(entry.item) for worker in self._alive)
        ]
        for entry in stranded:
            entry.state = State.FAILED
        return [entry.item.name for entry in stranded]

    def stop(self) -> None:
        """Start nothing more."""
        self.stopped = True
        for entry in self._of(State.WAITING):
            entry.state = State.SKIPPED

    def skip(self, name: str) -> None:
        """Skip a waiting item and the items that depend on it."""
        self.entries[name].state = State.SKIPPED
        self._skip_after(name)

    def on(self, worker: str) -> list[str]:
        """Return the items that run on a worker."""
        return [entry.item.name for entry in self._of(State.RUNNING) if entry.worker == worker]

    @property
    def over(self) -> bool:
        """Whether no item runs or waits."""
        return not any(entry.state in (State.WAITING, State.RUNNING) for entry in self.entries.values())

    def _of(self, state: State) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.state is state]

    def _skip_after(self, name: str) -> None:
        for entry in self._of(State.WAITING):
            if entry.item.after == name:
                entry.state = State.SKIPPED
                self._skip_after(entry.item.name)

    def _next(self, now: float) -> tuple[Entry, Worker] | None:
        ready = [entry for entry in self._of(State.WAITING) if entry.due <= now and self._may_begin(entry.item)]
        if cached := next((entry for entry in ready if entry.item.cached), None):
            return cached, self._alive[0]
        running = [entry for entry in self._of(State.RUNNING) if not entry.item.cached]
        if len(running) >= self.limits.parallel:
            return None
        used = sum(entry.item.memory for entry in running)
        most = self.limits.memory or math.inf
        fits = [entry for entry in ready if not running or used + entry.item.memory <= most]
        free = {worker: worker.slots - sum(entry.worker == worker.name for entry in running) for worker in self._alive}
        # The sort is stable: of workers with as many free slots the first one counts.
        for worker in sorted((worker for worker in free if free[worker] > 0), key=lambda worker: -free[worker]):
            here = [entry for entry in fits if worker.takes(entry.item) and self._belongs(entry.item, worker)]
            if here:
                return min(here, key=lambda entry: self._order(entry, worker)), worker
        return None

    def _order(self, entry: Entry, worker: Worker) -> tuple[int, bool, int, int]:
        """Return the sort key of an item on a worker; the lowest starts first.

        The first item of a group builds the shared stages, while others would wait; a worker that has these stages need
        not build them. Items with much memory start early: at the end they would run alone.
        """
        alike = [one for one in self.entries.values() if one.item.group == entry.item.group and one.tries]
        here = [one for one in alike if one.worker == worker.name]
        ahead = sum(one.state is State.RUNNING for one in here)
        elsewhere = any(one.state is State.PASSED for one in alike) and not here
        return ahead, elsewhere, -entry.item.memory, entry.index

    def _belongs(self, item: Item, worker: Worker) -> bool:
        """Return whether an item can use the stages of the item it depends on, which are on that item's worker."""
        before = self.entries.get(item.after)
        return before is None or before.worker == worker.name or before.worker not in {one.name for one in self._alive}

    def _family(self, item: Item) -> list[Entry]:
        """Return the items of one build: the first, and its dependents."""
        first = item.after or item.name
        return [entry for name, entry in self.entries.items() if first in (name, entry.item.after)]

    def _may_begin(self, item: Item) -> bool:
        before = self.entries.get(item.after)
        return before is None or before.state is State.PASSED


def delay(tries: int) -> float:
    """Return the seconds to wait after try number ``tries`` (from 1)."""
    return float(min(FIRST_DELAY_S * 3 ** (tries - 1), LONGEST_DELAY_S))


USABLE = 0.85
"""The share of an engine's memory that compilers may use; ``with-jobs`` and ``slot.py`` have the same."""


def schedule_items(
    plan: Plan,
    tasks: Iterable[CellTask],
    cores: int,
    memory: int,
    peaks: Mapping[str, int],
    cached: Collection[str] = (),
) -> list[Item]:
    """Return the items of tasks, for an engine with ``memory`` usable bytes; ``peaks``: cell → MB in an earlier run.

    Args:
        cached: tasks whose steps are expected in the engine's build cache. Those that wait for another one are baked
            by themselves.
    """
    tasks = list(tasks)
    builders = {task.name for task in tasks if task.has(Kind.WHEEL)}
    # Compilers that share slots wait for memory themselves; each cell must be able to run one.

    def declared(task: CellTask) -> int:
        limits = plan.of(task.cell).facts.limits
        return limits.memory if plan.shares_slots else limits.needed(cores, memory)

    first = {task.name: task.cell.built_by for task in tasks}
    after = {name: builder if builder != name and builder in builders else "" for name, builder in first.items()}
    return [
        Item(
            name=task.name,
            after=after[task.name],
            memory=declared(task) or peaks.get(task.name, 0) * 10**6,
            platform=task.cell.platform,
            group=json.dumps([value for axis, value in sorted(task.cell.axes.items()) if axis != "python"]),
            cached=task.name in cached and not after[task.name],
        )
        for task in tasks
    ]
