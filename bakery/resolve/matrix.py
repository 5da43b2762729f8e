"""The matrix: axes to cells, with ids that name everything else."""

from __future__ import annotations

import fnmatch
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bakery.core.cell_ids import MACHINES, axis_tags, platform_tag
from bakery.core.errors import PlanError
from bakery.core.names import PYTHON
from bakery.core.text import is_line

LONGEST = 120
"""The maximum length of an id: with the kind of a target, it must fit into the tag of an image (128)."""

MOST_CELLS = 200_000
"""The maximum number of combinations, including excluded ones."""

MOST_CHECKS = 3_000_000
"""The maximum number of combinations times comparisons (axes, and entries of ``exclude`` and ``overrides``)."""


def combinations(
    axes: Mapping[str, tuple[str, ...]],
    exclude: Sequence[Mapping[str, str]],
    include: Sequence[Mapping[str, str]],
    overrides: int = 0,
) -> list[dict[str, str]]:
    """Return the axes of each cell: the product, without ``exclude``, with ``include``; no cell twice.

    Raises:
        PlanError: no cell is left, a value is not valid, or the matrix, with ``overrides`` entries, is too large.
    """
    _check_size(axes, len(include), len(exclude) + overrides)
    names = tuple(axes)
    cells = [dict(zip(names, values, strict=True)) for values in itertools.product(*axes.values())]
    if exclude:
        cells = [cell for cell in cells if not any(matches(rule, cell) for rule in exclude)]
    if include:
        first = {axis: values[0] for axis, values in axes.items()}
        cells += [{**first, **extra} for extra in include]
        cells = [dict(key) for key in dict.fromkeys(tuple(cell.items()) for cell in cells)]
    if not cells:
        raise PlanError("the matrix has no cell left", hint="an entry of matrix.exclude matches every combination")
    _check(cells)
    return cells


def _check_size(axes: Mapping[str, tuple[str, ...]], more: int, entries: int) -> None:
    """Raise PlanError if the matrix is too large."""
    hint = "leave out values of its axes, or split the recipe"
    number = math.prod(map(len, axes.values())) + more
    if number > MOST_CELLS:
        raise PlanError(f"the matrix has {number:,} combinations, and the limit is {MOST_CELLS:,}", hint=hint)
    checks = number * (len(axes) + entries)
    if checks > MOST_CHECKS:
        raise PlanError(
            f"the matrix has {number:,} combinations, {len(axes):,} axes and {entries:,} entries of exclude and "
            f"overrides: {checks:,} comparisons, and the limit is {MOST_CHECKS:,}",
            hint=hint,
        )


def _check(cells: Sequence[Mapping[str, str]]) -> None:
    """Check values that the models cannot check: of ``include``, of the environment and of the command line."""
    for axis in cells[0]:
        for value in {cell[axis] for cell in cells}:
            if axis == "python" and not PYTHON.match(value):
                raise PlanError(f"{value!r} is not a Python version", hint="write it as '3.12' or '3.13t'")
            if axis == "platform" and value not in MACHINES:
                raise PlanError(f"{value!r} is not a platform", hint=f"expected {' or '.join(MACHINES)}")
            if not is_line(value):
                raise PlanError(f"axis {axis}: expected one line without control characters, got {value!r}")


def matches(rule: Mapping[str, str], cell: Mapping[str, str]) -> bool:
    """Whether the globs of ``rule`` match the cell's values of these axes."""
    return all(fnmatch.fnmatchcase(cell[axis], glob) for axis, glob in rule.items())


def identifiers(cells: Sequence[Mapping[str, str]]) -> list[str]:
    """Return each cell's id: the Python, then every other axis that varies.

    Linux cells are named as if there were no others, so that adding macOS or Windows does not change their names. Other
    cells always have their platform in the name.

    Raises:
        PlanError: two values of an axis read the same in an id, or an id is too long for a name.
    """
    axes = list(cells[0])
    tags: dict[str, dict[str, str]] = {}
    for axis in axes:
        values = list(dict.fromkeys(cell[axis] for cell in cells))
        if axis == "platform":
            baked = [value for value in values if value.startswith("linux/")]
            tags[axis] = {value: "" if [value] == baked else platform_tag(value) for value in values}
        elif axis == "python" or len(values) > 1:
            tags[axis] = axis_tags(axis, values)
    names = ["-".join(filter(None, (tags[axis][cell[axis]] for axis in tags))) for cell in cells]
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise PlanError(
            f"two cells have the same id: {', '.join(duplicates[:5])}",
            hint="values of an axis must differ in their letters and digits",
        )
    longest = max(names, key=len)
    if len(longest) > LONGEST:
        raise PlanError(
            f"the id of a cell has {len(longest)} characters, and {LONGEST} fit into names: {longest[:60]}…",
            hint="shorten the values of the axes",
        )
    return names


@dataclass(frozen=True, slots=True)
class CellDraft:
    """A cell whose base images and releases are not decided yet.

    Attributes:
        args: the build arguments that the cell adds or changes.
        built_by: the id of the cell that builds its wheel; by default its own.
        wheel_python: the Python that builds its wheel; by default its own.
        abi3: its wheel must serve several Pythons, as `Audit.abi3` or `Audit.py3` says.
    """

    id: str
    axes: Mapping[str, str]
    args: Mapping[str, str] = field(default_factory=dict)
    built_by: str = ""
    wheel_python: str = ""
    abi3: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "built_by", self.built_by or self.id)
        object.__setattr__(self, "wheel_python", self.wheel_python or self.python)

    @property
    def python(self) -> str:
        """The Python version of the cell."""
        return self.axes["python"]

    @property
    def platform(self) -> str:
        """The platform in Docker's spelling."""
        return self.axes["platform"]
