"""Wheels of one name that several cells of a run built: stable-ABI ones, and libraries without a Python ABI.

Such a wheel installs on other Pythons of the matrix, too. It waits until the cells of these Pythons ended, and is published
if all of them passed and built the same bytes. Keys of the recipe (``wheel.abi3``, ``wheel.py3``) tell beforehand that one
cell builds it for all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename

from bakery.core.errors import AuditError, BakeryError, OutputError
from bakery.core.target_kinds import Kind
from bakery.plan.cells import Cell
from bakery.runs.journal import Result
from bakery.runs.publish import digest_of, exported_names, name_taken
from bakery.runs.scheduler import Schedule, State
from bakery.runs.selection import Selection
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
        builders: the tasks that built it; the one with the lowest Python first.
        error: why it is refused; None if it is not.
        missing: cells that the wheel also serves, and that failed, as text; then it is not published.
    """

    builders: tuple[str, ...]
    error: BakeryError | None
    missing: str = ""


@dataclass(frozen=True, slots=True)
class SameNames:
    """Tells which wheels of a run wait for other cells, and until when. It changes nothing.

    Attributes:
        stage: the folder with a folder of exported wheels for each task.
        groups: task → the tasks that share its wheel, as the plan says.
    """

    chosen: Selection
    stage: Path
    schedule: Schedule
    groups: Mapping[str, Sequence[str]]

    def names_to_wait_for(self, builder: Cell) -> tuple[str, ...]:
        """Return the names of the wheels of a cell whose tasks passed if they serve other cells; else none."""
        names = exported_names(self.stage / builder.id)
        return names if self._others(builder, names) else ()

    def ready(self, waiting: Mapping[str, tuple[str, ...]]) -> list[Ready]:
        """Return the wheels that need not wait any longer. Raises OutputError if one cannot be read.

        ``waiting``: task → the names of its wheels.
        """
        ready: list[Ready] = []
        for name, names in waiting.items():
            cell = self.chosen.tasks[name].cell
            others = self._others(cell, names)
            if any(name in item.builders for item in ready) or self._may_pass(others):
                continue
            builders = [item.id for item in by_python([cell, *others]) if waiting.get(item.id) == names]
            failed = [other.id for other in others if self._has_failed(other.id, names)]
            # What is not in this run says nothing of this wheel, but that it does not work there.
            before = [other for other in failed if other not in self.chosen.tasks]
            error = self._clash(builders, names) or (_refused(name, before) if before else None)
            ready.append(Ready(tuple(builders), error, "" if error else ", ".join(failed)))
        return ready

    def _others(self, builder: Cell, names: Collection[str]) -> list[Cell]:
        """Return the other cells that build wheels and whose Python the wheels of a cell serve."""
        plan = self.chosen.plan
        cells = (cell for cell in (*plan.cells, *plan.cibuildwheel_cells) if cell.has(Kind.WHEEL))
        others = (cell for cell in cells if cell.id != builder.id and differ_in_python_only(builder, cell))
        return [cell for cell in others if serves(names, cell)]

    def _may_pass(self, cells: Iterable[Cell]) -> bool:
        """Whether a task of some cells waits or runs."""
        tasks = (member for cell in cells for member in self.groups.get(cell.id, ()))
        return any(self.schedule.entries[task].state in (State.WAITING, State.RUNNING) for task in tasks)

    def _has_failed(self, name: str, names: Sequence[str]) -> bool:
        """Whether a cell that is served by wheels with some names did not pass: now or, if it is not built now, then."""
        if name not in self.chosen.tasks:
            record = self.chosen.previous.get(name)
            return name not in self.chosen.finished and record is not None and record.result is Result.FAILED
        has_passed = all(self.schedule.entries[member].state is State.PASSED for member in self.groups[name])
        return not has_passed and exported_names(self.stage / name) in ((), names)

    def _clash(self, builders: Sequence[str], names: Sequence[str]) -> BakeryError | None:
        """Return the error of cells that built different files of one name; None if all are the same."""
        for name in names:
            try:
                built = {f"{self.chosen.run.recipe} {cell}": digest_of(self.stage / cell / name) for cell in builders}
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
