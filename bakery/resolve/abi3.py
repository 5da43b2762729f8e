"""Which cell builds whose wheel: one of several cells that differ only in their Python builds a stable-ABI wheel for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bakery.core.names import axis_variable
from bakery.resolve.cell_draft import CellDraft


def python_release(python: str) -> tuple[int, ...]:
    """Return a Python version for comparisons: ``3.13t`` → (3, 13)."""
    return tuple(map(int, python.removesuffix("t").split(".")))


def share_wheels(drafts: Sequence[CellDraft], floor: str) -> tuple[CellDraft, ...]:
    """Return the cells with the builders of their wheels.

    Cells that differ in other build arguments, too, build wheels of their own, but with the same Python: the tested wheel is
    the published one.

    Args:
        floor: the lowest Python of stable-ABI wheels; empty if the project builds none.
    """
    pythons: dict[object, str] = {}
    builders: dict[object, str] = {}
    for draft in sorted(drafts, key=lambda draft: python_release(draft.python)):
        if _is_served(draft.python, floor):
            pythons.setdefault(_axes_key(draft), draft.python)
            builders.setdefault(_build_key(draft), draft.id)
    return tuple(
        replace(draft, built_by=builders[_build_key(draft)], wheel_python=pythons[_axes_key(draft)], abi3=True)
        if _is_served(draft.python, floor)
        else draft
        for draft in drafts
    )


def _is_served(python: str, floor: str) -> bool:
    # A free-threaded Python loads no abi3 module.
    return bool(floor) and not python.endswith("t") and python_release(python) >= python_release(floor)


def _axes_key(draft: CellDraft) -> object:
    return _without(draft.axes, "python")


def _build_key(draft: CellDraft) -> object:
    return _axes_key(draft), _without(draft.args, axis_variable("python"))


def _without(values: Mapping[str, str], name: str) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in values.items() if key != name)
