"""Decides which cell is baked when. It starts no process and reads no clock.

Cells run in parallel as far as cores and memory allow. A failed cell stops only the cells that depend on it. A try that
failed for a transient reason is repeated later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

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
    """The seat was lost; the try does not count."""


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
class Seat:
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
    """The state of an item; ``due`` is the time of its next try, ``seat`` that of the last one."""

    item: Item
    index: int
    state: State = State.WAITING
    tries: int = 0
    due: float = float("-inf")
    seat: str = ""


@dataclass(slots=True)
class Schedule:
    """Schedules the items of one run, which have different names; no ``seats`` means one engine."""

    items: Sequence[Item]
    limits: Limits
    seats: Sequence[Seat] = ()
    stopped: bool = field(default=False, init=False)
    entries: dict[str, Entry] = field(init=False)
    _alive: list[Seat] = field(init=False)

    def __post_init__(self) -> None:
        self.entries = {item.name: Entry(item, index) for index, item in enumerate(self.items)}
        self._alive = list(self.seats) or [Seat("", self.limits.parallel)]

    def due(self, now: float) -> list[Item]:
        """Return the items to start now; they count as running."""
        begun: list[Item] = []
        while choice := self._next(now):
            entry, seat = choice
            entry.state = State.RUNNING
            entry.tries += 1
            entry.seat = seat.name
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
        elif verdict is Try.AGAIN and entry.tries <= self.limits.retries and not self.stopped:
            entry.state = State.WAITING
            entry.due = now + delay(entry.tries)
        else:
            entry.state = State.FAILED
            self._skip_after(name)
            if not self.limits.keep_going:
                self.stop()

    def lose(self, seat: str) -> None:
        """Stop using a seat; the caller ends the items that run there with `Try.LOST`.

        Items that passed there are built again elsewhere if items of the same build are unfinished.
        """
        self._alive = [one for one in self._alive if one.name != seat]
        for entry in self._of(State.PASSED):
            family = self._family(entry.item)
            if entry.seat == seat and any(one.state in (State.WAITING, State.RUNNING) for one in family):
                entry.state = State.WAITING
                entry.tries -= 1

    def strand(self) -> list[str]:
        """Fail the items that no remaining seat can build, and return their names."""
        stranded = [
            entry for entry in self._of(State.WAITING) if not any(seat.takes(entry.item) for seat in self._alive)
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

    def on(self, seat: str) -> list[str]:
        """Return the items that run on a seat."""
        return [entry.item.name for entry in self._of(State.RUNNING) if entry.seat == seat]

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

    def _next(self, now: float) -> tuple[Entry, Seat] | None:
        ready = [entry for entry in self._of(State.WAITING) if entry.due <= now and self._may_begin(entry.item)]
        if cached := next((entry for entry in ready if entry.item.cached), None):
            return cached, self._alive[0]
        running = [entry for entry in self._of(State.RUNNING) if not entry.item.cached]
        if len(running) >= self.limits.parallel:
            return None
        used = sum(entry.item.memory for entry in running)
        fits = [entry for entry in ready if not running or self._fits(used + entry.item.memory)]
        free = {seat: seat.slots - sum(entry.seat == seat.name for entry in running) for seat in self._alive}
        # The sort is stable: of seats with as many free slots the first one counts.
        for seat in sorted((seat for seat in free if free[seat] > 0), key=lambda seat: -free[seat]):
            here = [entry for entry in fits if seat.takes(entry.item) and self._belongs(entry.item, seat)]
            if here:
                return min(here, key=lambda entry: self._order(entry, seat)), seat
        return None

    def _order(self, entry: Entry, seat: Seat) -> tuple[int, bool, int, int]:
        """Return the sort key of an item on a seat; the lowest starts first.

        The first item of a group builds the shared stages, while others would wait; a seat that has these stages need
        not build them. Items with much memory start early: at the end they would run alone.
        """
        alike = [one for one in self.entries.values() if one.item.group == entry.item.group and one.tries]
        here = [one for one in alike if one.seat == seat.name]
        ahead = sum(one.state is State.RUNNING for one in here)
        elsewhere = any(one.state is State.PASSED for one in alike) and not here
        return ahead, elsewhere, -entry.item.memory, entry.index

    def _belongs(self, item: Item, seat: Seat) -> bool:
        """Return whether an item can use the stages of the item it depends on, which are on that item's seat."""
        before = self.entries.get(item.after)
        return before is None or before.seat == seat.name or before.seat not in {one.name for one in self._alive}

    def _family(self, item: Item) -> list[Entry]:
        """Return the items of one build: the first, and its dependents."""
        first = item.after or item.name
        return [entry for name, entry in self.entries.items() if first in (name, entry.item.after)]

    def _may_begin(self, item: Item) -> bool:
        before = self.entries.get(item.after)
        return before is None or before.state is State.PASSED

    def _fits(self, memory: int) -> bool:
        return not self.limits.memory or memory <= self.limits.memory


def delay(tries: int) -> float:
    """Return the seconds to wait after try number ``tries`` (from 1)."""
    return float(min(FIRST_DELAY_S * 3 ** (tries - 1), LONGEST_DELAY_S))
