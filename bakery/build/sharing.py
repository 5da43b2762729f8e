"""Holds wheels for several Pythons back until they are tested on each, in a run of a recipe without ``wheel.abi3``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bakery.build.cell_tasks import CellState
from bakery.build.context import RunContext
from bakery.build.finish import Finisher
from bakery.build.publish import exported_names, same_file
from bakery.build.scheduler import Schedule, State
from bakery.build.shared_wheels import is_for_several, serves, wheel_builders
from bakery.plan.cells import Cell


@dataclass(slots=True)
class Sharing:
    """The wheels for several Pythons of one run.

    Attributes:
        peak: returns the peak memory of a task in MB.
        groups: task → the tasks that its wheel waits for, with itself, once that is decided; the builder is the first.
    """

    context: RunContext
    schedule: Schedule
    finisher: Finisher
    states: Mapping[str, CellState]
    peak: Callable[[str], int]
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)
    _held: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)
    """Task that passed → the names of its wheels; none if it tested those of another task."""

    @property
    def over(self) -> bool:
        """Whether no wheel is held back."""
        return not self._held

    def start(self, name: str) -> bool:
        """Take the wheel that a task waited for, if it serves the task's Python; return whether anything is to be baked."""
        task, state = self.context.tasks[name], self.states[name]
        builder = self.context.wheel_of.get(name, "")
        if not state.wheel_of and serves(self._held.get(builder, ()), task.cell):
            state.wheel_of = builder
        return not state.wheel_of or bool(task.without_wheel().targets)

    def hold(self, name: str) -> bool:
        """Hold the wheel of a task that passed, if it is for several Pythons; return whether it is."""
        if name not in self.context.families:
            return False
        names = () if self.states[name].wheel_of else exported_names(self.context.folder / "stage" / name)
        if not (self.states[name].wheel_of or is_for_several(names)):
            return False
        self._held[name] = names
        return True

    def settle(self) -> Iterator[tuple[str, ...]]:
        """Decide who takes whose wheel once a family ended; yield the tasks that share one and tested it.

        Tasks that tested another wheel start once more, with that of the lowest Python.
        """
        for family in {family[0].id: family for family in map(self.context.families.__getitem__, self._held)}.values():
            entries = {cell.id: self.schedule.entries[cell.id].state for cell in family}
            if {State.WAITING, State.RUNNING}.isdisjoint(entries.values()):
                builders = wheel_builders(family, self._held)
                self.context.wheel_of.update({name: first for name, first in builders.items() if name != first})
                untested = {name for name, first in builders.items() if not self._has_tested(name, first)}
                if untested and not self.schedule.stopped:
                    self._test_again({name: builders[name] for name in untested})
                else:
                    failed = [cell for cell in family if entries[cell.id] is not State.PASSED]
                    yield from self._release(builders, failed, untested)

    def _has_tested(self, name: str, builder: str) -> bool:
        """Return whether a task tested the wheels of ``builder``: they are its own, or the same bytes."""
        state, wheels = self.states[name], self._held[builder]
        if builder in (name, state.wheel_of):
            return True
        stage = self.context.folder / "stage"
        same = self._held[name] == wheels and all(
            same_file(stage / name / file, stage / builder / file) for file in wheels
        )
        if same or not self.context.tasks[name].without_wheel().targets:
            state.wheel_of = builder
        return state.wheel_of == builder

    def _test_again(self, builders: Mapping[str, str]) -> None:
        for name, builder in builders.items():
            self.states[name].wheel_of = builder
            self.schedule.again(name)
            self._held.pop(name)

    def _release(
        self, builders: Mapping[str, str], failed: Sequence[Cell], untested: set[str]
    ) -> Iterator[tuple[str, ...]]:
        """Yield the tasks of each wheel that passed on all its Pythons; the others are recorded, for `--failed`."""
        for builder in dict.fromkeys(builders.values()):
            takers = tuple(name for name, first in builders.items() if first == builder)
            missing = tuple(cell.id for cell in failed if serves(self._held[builder], cell))
            self.groups |= dict.fromkeys(takers, (*takers, *missing))
            if not missing and untested.isdisjoint(takers):
                yield takers
                continue
            self.context.wheel_of.update(dict.fromkeys(missing, builder))
            for name in takers:
                self.finisher.held_back(self.context.tasks[name], self.peak(name))
            for name in missing:
                if self.states[name].error or self.states[name].failed_in:
                    self.finisher.failed(self.context.tasks[name], self.peak(name))
        for name in builders:
            self._held.pop(name)
