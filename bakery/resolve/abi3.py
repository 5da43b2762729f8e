"""Which cell builds whose wheel: of cells that differ in their Python alone, one builds the stable-ABI wheel of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bakery.core.names import axis_variable


@dataclass(frozen=True, slots=True)
class Wheel:
    """The wheel of a cell.

    Attributes:
        built_by: the id of the cell that builds it.
        python: the Python that builds it.
        abi3: it must be a stable-ABI wheel.
    """

    built_by: str
    python: str
    abi3: bool


def release(python: str) -> tuple[int, ...]:
    """Return a Python version for comparing: ``3.13t`` → (3, 13)."""
    return tuple(map(int, python.removesuffix("t").split(".")))


def wheels(
    ids: Sequence[str], axes: Sequence[Mapping[str, str]], args: Sequence[Mapping[str, str]], floor: str
) -> list[Wheel]:
    """Return the wheel of each cell.

    Args:
        args: each cell's build arguments. Cells that have others of their own build wheels of their own, with the
            same Python: what is tested is what is published.
        floor: the lowest Python of stable-ABI wheels; empty where the project builds none.
    """
    if not floor:
        return [Wheel(cell_id, cell["python"], False) for cell_id, cell in zip(ids, axes, strict=True)]
    lowest: dict[object, str] = {}
    builders: dict[object, str] = {}
    order = sorted(range(len(ids)), key=lambda index: release(axes[index]["python"]))
    shared = [index for index in order if _is_served(axes[index]["python"], floor)]
    for index in shared:
        lowest.setdefault(_without(axes[index], "python"), axes[index]["python"])
        builders.setdefault(_key(axes[index], args[index]), ids[index])
    served = frozenset(shared)
    return [
        Wheel(builders[_key(cell, own)], lowest[_without(cell, "python")], True)
        if index in served
        else Wheel(cell_id, cell["python"], False)
        for index, (cell_id, cell, own) in enumerate(zip(ids, axes, args, strict=True))
    ]


def _is_served(python: str, floor: str) -> bool:
    # A free-threaded Python loads no abi3 module.
    return not python.endswith("t") and release(python) >= release(floor)


def _key(axes: Mapping[str, str], args: Mapping[str, str]) -> object:
    return _without(axes, "python"), _without(args, axis_variable("python"))


def _without(values: Mapping[str, str], name: str) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in values.items() if key != name)
