"""Wheels of one name that several cells of a run built: stable-ABI ones, and libraries without a Python ABI.

Such a wheel installs on other Pythons of the matrix, too. It waits until the cells of these Pythons ended, and is published
if all of them passed and built the same bytes. Keys of the recipe (``wheel.abi3``, ``wheel.py3``) tell beforehand that one
cell builds it for all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import InvalidWheelFilename

from bakery.core.errors import AuditError, BakeryError, OutputError
from bakery.core.names import Kind
from bakery.plan.cells import Cell
from bakery.runs.context import RunContext
from bakery.runs.journal import Result
from bakery.runs.publish import digest_of, exported_names, name_taken
from bakery.runs.scheduler import Schedule, State
from wheel_audit.tags import installable_abis
from wheel_audit.wheel_names import parse_wheel_name


def by_python(cells: Iterable[Cell]) -> list[Cell]:
    """Return cells in the order of their Pythons, the lowest first; a free-threaded one comes after its release."""
    return sorted(cells, key=_release)


def _release(cell: Cell) -> tuple[int, bool]:
    python = cell.axes.get("python", "3.0")
    return int(python.removesuffix("t").partition(".")[2]), python.endswith("t")


def differ_in_python_only(one: Cell, other: Cell) -> bool:
    """Whether two cells that build wheels have the same values on all axes but their Python."""
    axes = [{name: value for name, value in cell.axes.items() if name != "python"} for cell in (one, other)]
    return axes[0] == axes[1]


def serves(names: Collection[str], cell: Cell) -> bool:
    """Whether wheels with these names are for several Pythons (their ABI is abi3, abi3t or none), among them a cell's."""
    abis = installable_abis(cell.axes["python"])
    try:
        tags = [parse_wheel_name(name)[3] for name in names]
    except InvalidWheelFilename:
        return False
    return bool(tags) and all(
        all(tag.abi in ("abi3", "abi3t", "none") for tag in group)
        and any((tag.interpreter, tag.abi) in abis for tag in group)
        for group in tags
    )


@dataclass(frozen=True, slots=True)
class Ready:
    """A wheel that need not wait any longer.

    Attributes:
        members: the tasks that built or tested it; the one with the lowest Python first.
        errors: task → why its wheel is refused.
        missing: cells that the wheel also serves, and that failed, as text; then it is not published.
    """

    members: tuple[str, ...]
    errors: Mapping[str, BakeryError]
    missing: str = ""


@dataclass(slots=True)
class SameNames:
    """The wheels of one run that wait for other cells.

    Attributes:
        groups: task → the tasks that share its wheel, as the plan says.
        held: task whose wheel waits → the names of its wheels.
    """

    context: RunContext
    schedule: Schedule
    groups: Mapping[str, Sequence[str]]
    held: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def hold(self, builder: Cell) -> bool:
        """Hold the wheel of a cell whose tasks passed, if it serves other cells; return whether it does."""
        names = exported_names(self._stage(builder.id))
        if not self._others(builder, names):
            return False
        self.held[builder.id] = names
        return True

    def settle(self) -> Iterator[Ready]:
        """Yield the wheels that waited for cells that ended. Raises OutputError if one cannot be read."""
        for name, names in list(self.held.items()):
            if name not in self.held or not self._may_go(name):
                continue
            cell = self.context.tasks[name].cell
            others = self._others(cell, names)
            alike = [item.id for item in by_python([cell, *others]) if self.held.get(item.id) == names]
            for builder in alike:
                del self.held[builder]
            members = tuple(member for builder in alike for member in self.groups[builder])
            failed = [other.id for other in others if self._has_failed(other.id, names)]
            # What is not in this run says nothing of this wheel, but that it does not work there.
            before = [other for other in failed if other not in self.context.tasks]
            error = self._clash(alike, names) or (_refused(name, before) if before else None)
            yield Ready(members, dict.fromkeys(alike, error) if error else {}, "" if error else ", ".join(failed))

    def _stage(self, name: str) -> Path:
        return self.context.folder / "stage" / name

    def _others(self, builder: Cell, names: Collection[str]) -> list[Cell]:
        """Return the other cells that build wheels and whose Python the wheels of a cell serve."""
        plan = self.context.plan
        cells = (cell for cell in (*plan.cells, *plan.cibuildwheel_cells) if cell.has(Kind.WHEEL))
        others = (cell for cell in cells if cell.id != builder.id and differ_in_python_only(builder, cell))
        return [cell for cell in others if serves(names, cell)]

    def _may_go(self, name: str) -> bool:
        others = self._others(self.context.tasks[name].cell, self.held[name])
        tasks = (member for other in others for member in self.groups.get(other.id, ()))
        return not any(self.schedule.entries[task].state in (State.WAITING, State.RUNNING) for task in tasks)

    def _has_failed(self, name: str, names: Sequence[str]) -> bool:
        """Whether a cell that is served by wheels with some names did not pass: now or, if it is not built now, then."""
        if name not in self.context.tasks:
            record = self.context.previous.get(name)
            return name not in self.context.finished and record is not None and record.result is Result.FAILED
        has_passed = all(self.schedule.entries[member].state is State.PASSED for member in self.groups[name])
        return not has_passed and exported_names(self._stage(name)) in ((), names)

    def _clash(self, builders: Sequence[str], names: Sequence[str]) -> BakeryError | None:
        """Return the error of cells that built different files of one name; None if all are the same."""
        for name in names:
            try:
                built = {f"{self.context.plan.recipe} {cell}": digest_of(self._stage(cell) / name) for cell in builders}
            except OSError as error:
                raise OutputError(f"cannot read {error.filename}: {error.strerror}") from error
            if len(set(built.values())) > 1:
                return name_taken(name, built)
        return None


def _refused(name: str, failed: Sequence[str]) -> AuditError:
    cells = ", ".join(failed)
    return AuditError(
        f"{name}: its wheel is for {cells}, too, and {cells} failed when it was built last",
        hint=f"build {cells}, too; with wheel.abi3 or wheel.py3 in the recipe, one cell builds the wheel of all Pythons",
    )
