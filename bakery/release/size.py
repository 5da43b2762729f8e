"""The space that a release takes, before its wheels are built and after, and the limit of the package index for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import median

from bakery.core.text import size_text
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.resolve.device_promises import device_code, device_promises
from bakery.resolve.rules.subject import ARCH_LISTS
from bakery.runs.cell_inputs import bakes_of
from bakery.runs.journal import Record, kept_records
from bakery.runs.same_name import by_python
from wheel_audit.checks.size import PYPI_PROJECT_LIMIT

LIMIT_HINT = (
    "plan fewer cells or GPU architectures, or set builder.device-compression; if the index gives the project more space, "
    "set wheel.max-project-size"
)


class Source(StrEnum):
    """Where the size of a cell is from."""

    BUILT = "built"
    SHARED = "shared"
    ESTIMATE = "estimate"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CellSize:
    """The size of a cell's wheels, under all their names.

    Attributes:
        size: in bytes; 0 if another cell builds the wheel, None if nothing is known.
        cells: those that the estimate is made from, or the one that builds the wheel.
    """

    cell: str
    size: int | None
    source: Source
    cells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """The space that a package index gives a project for all its releases.

    Attributes:
        size: in bytes.
        default: it is PyPI's, not that of the recipe.
        binding: a larger release is refused: the recipe sets the limit, or names wheels for a public index.
    """

    size: int
    default: bool
    binding: bool

    def __str__(self) -> str:
        return f"{size_text(self.size)} {'that PyPI gives a project' if self.default else 'of wheel.max-project-size'}"


@dataclass(frozen=True, slots=True)
class ProjectSize:
    """The size of a project's release.

    Attributes:
        size: of all wheels with a known or estimated size, in bytes.
        uploaded: the part that goes to the index of the limit, in bytes: wheels may have more names, for another index.
        limit: None for wheels of a private index without ``wheel.max-project-size``.
        estimated: the part of ``size`` that is an estimate, in bytes.
        unknown: the number of cells without a size.
    """

    project: str
    size: int
    uploaded: int
    limit: Limit | None
    estimated: int = 0
    unknown: int = 0

    @property
    def fault(self) -> str:
        """Why the release is refused; empty if it fits, as far as its sizes are known."""
        if not self.limit or not self.limit.binding or self.uploaded <= self.limit.size:
            return ""
        return f"{self.project}: the release takes {size_text(self.uploaded)}, more than the {self.limit}"


def limit_of(plan: Plan) -> Limit | None:
    """Return the limit for the project of a plan; None if its wheels are for a private index that has none."""
    if plan.max_project_mb:
        return Limit(plan.max_project_mb * 10**6, default=False, binding=True)
    index = _index(plan)
    return None if index == "private" else Limit(PYPI_PROJECT_LIMIT, default=True, binding=index == "public")


def _index(plan: Plan) -> str:
    """Return the kind of index that the limit is for: the public one if a wheel is named for it."""
    kinds = {naming.index for audit in plan.audits for naming in audit.namings}
    return next(kind for kind in ("public", "", "private") if kind in kinds)


def uploaded(plan: Plan, cell: Cell, size: int) -> int:
    """Return the part of a cell's ``size`` that goes to the index of the limit: files of a build differ only in their names."""
    namings = plan.of(cell).audit.namings
    return size * sum(naming.index == _index(plan) for naming in namings) // len(namings)


def by_project(parts: Iterable[ProjectSize]) -> tuple[ProjectSize, ...]:
    """Return one size for each project: several recipes may build wheels of one project. A limit in a recipe goes first."""
    projects: dict[str, list[ProjectSize]] = {}
    for part in parts:
        projects.setdefault(part.project, []).append(part)
    return tuple(
        ProjectSize(
            name,
            sum(part.size for part in group),
            sum(part.uploaded for part in group),
            min((part.limit for part in group if part.limit), key=_rank, default=None),
            sum(part.estimated for part in group),
            sum(part.unknown for part in group),
        )
        for name, group in projects.items()
    )


def _rank(limit: Limit) -> tuple[bool, bool, int]:
    return limit.default, not limit.binding, limit.size


@dataclass(frozen=True, slots=True)
class _Build:
    """What the last build of a cell tells: the size of one of its wheels in bytes, the number of architectures in it."""

    cell: str
    size: float
    archs: int

    def scaled(self, archs: int) -> float:
        """The size with another number of architectures; 0 is unknown."""
        return self.size * archs / self.archs if archs and self.archs else self.size


def plan_size(plan: Plan, selected: Sequence[Cell], state: Path, project: str) -> tuple[list[CellSize], ProjectSize]:
    """Return the sizes of cells and their sum. ``state`` is the folder with the journals of the project's runs.

    A cell that a kept run built has the size of its wheels. Every other one has the median of the built cells with the most
    equal axes besides Python. Both are scaled by the number of GPU architectures. Raises OutputError if a journal cannot
    be read.
    """
    cells = {cell.id: cell for cell in (*plan.cells, *plan.cibuildwheel_cells)}
    kept = kept_records(state, plan.recipe)
    # A run that did not finish a cell says nothing about its wheel.
    newest = {
        name: record for records in kept.values() for name, record in records.items() if name in cells and record.wheels
    }
    # Cells that built the same wheel share it.
    first: dict[object, str] = {}
    for cell in by_python(cells.values()):
        if cell.id in newest:
            first.setdefault(newest[cell.id].wheels, cell.id)
    builders = {
        name: first[newest[name].wheels] if name in newest and cell.built_by == name else cell.built_by
        for name, cell in cells.items()
    }
    archs = {
        name: len(promise.archs) + sum(len(item.archs) for item in promise.folders.values())
        for name, promise in device_promises(plan).items()
    }
    builds: dict[str, _Build] = {}
    similar: dict[frozenset[tuple[str, str]], list[_Build]] = {}
    for name, record in newest.items():
        if builders[name] == name:
            size = sum(wheel.size for wheel in record.wheels) / len(record.wheels)
            then = archs.get(name, 0) and (_archs_then(state, plan.recipe, name, kept) or archs[name])
            builds[name] = _Build(name, size, then)
            similar.setdefault(_axes(cells[name]), []).append(builds[name])
    wanted = {name for cell in selected for name in (cell.id, builders[cell.id])}
    sizes = [
        _size_of(cell, len(plan.of(cell).audit.namings), archs.get(name, 0), builds.get(name), similar)
        if builders[name] == name
        else CellSize(name, 0, Source.SHARED, (builders[name],))
        for name, cell in cells.items()
        if name in wanted
    ]
    total = sum(item.size or 0 for item in sizes)
    return sizes, ProjectSize(
        project,
        total,
        sum(uploaded(plan, cells[item.cell], item.size or 0) for item in sizes),
        limit_of(plan),
        sum(item.size or 0 for item in sizes if item.source is Source.ESTIMATE),
        sum(item.source is Source.UNKNOWN for item in sizes),
    )


def _size_of(
    cell: Cell,
    names: int,
    archs: int,
    build: _Build | None,
    similar: Mapping[frozenset[tuple[str, str]], Sequence[_Build]],
) -> CellSize:
    """Return the size of a cell's wheels under a number of ``names``, from its last build or those of ``similar`` axes."""
    if build and build.archs == archs:
        return CellSize(cell.id, round(build.size * names), Source.BUILT)
    axes = _axes(cell)
    most = max((len(axes & other) for other in similar), default=0)
    nearest = [item for other, items in similar.items() if len(axes & other) == most for item in items]
    peers = [build] if build else nearest
    if not peers:
        return CellSize(cell.id, None, Source.UNKNOWN)
    size = median(peer.scaled(archs) for peer in peers)
    return CellSize(cell.id, round(size * names), Source.ESTIMATE, tuple(peer.cell for peer in peers))


def _axes(cell: Cell) -> frozenset[tuple[str, str]]:
    """Return the axes of a cell without its Python, which hardly changes the size of a wheel."""
    return frozenset((axis, value) for axis, value in cell.axes.items() if axis != "python")


def _archs_then(state: Path, recipe: str, cell: str, kept: Mapping[Path, Mapping[str, Record]]) -> int:
    """Return the number of architectures in the last wheel of a cell; 0 if no kept run tells."""
    for journal, inputs in bakes_of(state, recipe, cell):
        if (record := kept.get(journal, {}).get(cell)) and record.wheels:
            values = (item for stage in inputs.stages.values() for item in stage.values.items())
            return next((len(device_code(text)) for name, text in values if name.endswith(ARCH_LISTS) and text), 0)
    return 0
