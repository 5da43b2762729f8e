"""Wheels that serve several Pythons although the recipe has no ``wheel.abi3``: abi3 and ``py3-none-PLATFORM`` ones.

The tags of what was built decide, not the order in which cells end: a cell takes the wheel of the lowest Python whose
wheel installs on it, unless its own wheel is for one Python only. The journal remembers it, so that a later run builds
that wheel first and the others not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from packaging.utils import InvalidWheelFilename

from bakery.audit.tags import installable_abis
from bakery.build.cell_tasks import CellTask
from bakery.build.journal import Record
from bakery.core.names import TESTED_TORCH, Kind, axis_variable
from bakery.core.wheel_names import parse_wheel_name
from bakery.plan.cells import Cell
from bakery.plan.model import Plan

Families = Mapping[str, tuple[Cell, ...]]
"""Cell → the cells that differ from it only in their Python, with itself; the lowest Python first."""


def families(cells: Iterable[Cell]) -> Families:
    """Return the families of several cells; none for a recipe with ``wheel.abi3`` or ``wheel.torch-abi``.

    Such a recipe says which cell builds whose wheel.
    """
    cells = list(cells)
    if any(cell.abi3 or TESTED_TORCH in cell.args for cell in cells):
        return {}
    members: dict[object, list[Cell]] = {}
    for cell in by_python(cells):
        args = {name: value for name, value in cell.args.items() if name != axis_variable("python")}
        axes = {name: value for name, value in cell.axes.items() if name != "python"}
        members.setdefault((frozenset(axes.items()), frozenset(args.items())), []).append(cell)
    return {cell.id: tuple(family) for family in members.values() if len(family) > 1 for cell in family}


def task_families(tasks: Mapping[str, CellTask]) -> Families:
    """Return the families of the tasks that build wheels."""
    return families(task.cell for task in tasks.values() if task.has(Kind.WHEEL))


def by_python(cells: Iterable[Cell]) -> list[Cell]:
    """Return cells in the order of their Pythons, the lowest first; a free-threaded one comes after its release."""
    return sorted(cells, key=_release)


def _release(cell: Cell) -> tuple[int, bool]:
    python = cell.axes.get("python", "3.0")
    return int(python.removesuffix("t").partition(".")[2]), python.endswith("t")


def is_for_several(names: Collection[str]) -> bool:
    """Whether a cell's wheels, by their names, are for no single Python: the ABI is abi3, abi3t or none."""
    try:
        return bool(names) and all(
            tag.abi in ("abi3", "abi3t", "none") for name in names for tag in parse_wheel_name(name)[3]
        )
    except InvalidWheelFilename:
        return False


def serves(names: Collection[str], cell: Cell) -> bool:
    """Whether wheels with these names are for several Pythons, among them that of a cell."""
    abis = installable_abis(cell.axes["python"])
    return is_for_several(names) and all(
        any((tag.interpreter, tag.abi) in abis for tag in parse_wheel_name(name)[3]) for name in names
    )


def wheel_builders(family: Sequence[Cell], wheels: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return cell → the cell whose wheels it takes, for the cells of a family that are in ``wheels``.

    ``wheels``: cell → the names of its wheels, which are for several Pythons; empty if it built none.
    """
    builders: dict[str, str] = {}
    for cell in (cell for cell in family if cell.id in wheels):
        lower = (name for name, builder in builders.items() if name == builder)
        builders[cell.id] = next((name for name in lower if serves(wheels[name], cell)), cell.id)
    return builders


def known_builders(cells: Families, previous: Mapping[str, Record]) -> dict[str, str]:
    """Return cell → the cell whose wheel it took in the last run, or can take: that has a wheel for several Pythons."""
    known: dict[str, str] = {}
    for family in {family[0].id: family for family in cells.values()}.values():
        recorded = {
            cell.id: [wheel.name for wheel in record.wheels] for cell in family if (record := previous.get(cell.id))
        }
        for index, cell in enumerate(family):
            lower = [other.id for other in family[:index]]
            record = previous.get(cell.id)
            if record and record.wheel_of in lower:
                known[cell.id] = known.get(record.wheel_of, record.wheel_of)
            elif not recorded.get(cell.id):
                builder = next((name for name in lower if serves(recorded.get(name, ()), cell)), "")
                known |= {cell.id: builder} if builder else {}
    return known


def remembered(
    plan: Plan, groups: tuple[str, ...], only: tuple[str, ...], previous: Mapping[str, Record]
) -> dict[str, str]:
    """Return the known builders of the selected cells that build wheels."""
    wheels = {target.cell.id for target in plan.select(groups, only) if target.kind is Kind.WHEEL}
    known = known_builders(families(plan.cells_of(Kind.WHEEL)), previous)
    return {cell: builder for cell, builder in known.items() if cell in wheels}
