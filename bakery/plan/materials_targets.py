"""The target that tells what a wheel is made of: baked beside the wheel's own, with all of whose steps it shares."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator

from bakery.core.names import INGREDIENTS, Kind
from bakery.plan.cells import Cell, Target
from bakery.plan.model import Plan

_SHARED = ("args", "contexts", "network", "platform")
"""Keys of overrides that decide what steps do."""


def beside(plan: Plan, targets: Iterable[Target]) -> tuple[Target, ...]:
    """Return the targets that tell what the wheels among targets are made of."""
    cells = {target.cell.id for target in targets if target.kind is Kind.WHEEL}
    return tuple(item for item in plan.targets() if item.kind is Kind.MATERIALS and item.cell.id in cells)


def overrides(plan: Plan, target: Target) -> tuple[str, ...]:
    """Return what makes such a target tell of the wheel alone, built as the wheel is."""
    return (*_of_wheel(plan, target.cell, target.name), f"{target.name}.target={INGREDIENTS}")


def _of_wheel(plan: Plan, cell: Cell, name: str) -> Iterator[str]:
    wheel = f"{Kind.WHEEL.value}-{cell.id}"
    for override in plan.overrides:
        meant = fnmatch.fnmatchcase(wheel, override.pattern) and not fnmatch.fnmatchcase(name, override.pattern)
        if meant and override.key.partition(".")[0] in _SHARED:
            yield f"{name}.{override.key}{'+' if override.append else ''}={override.value}"
