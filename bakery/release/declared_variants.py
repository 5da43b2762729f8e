"""What the recipes say of the variants of wheels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bakery.plan.model import Plan
from bakery.plan.values import substitute
from bakery.release.variants import Declared
from bakery.release.verify import assigned


def declared_variants(plan: Plan, wheels: Sequence[Path]) -> dict[Path, Declared]:
    """Return what ``[wheel.variants]`` says of each wheel of a plan's cells; values without text are left out."""
    result: dict[Path, Declared] = {}
    cells = {cell.id: cell for cell in (*plan.cells, *plan.cibuildwheel_cells)}
    for name, matched in assigned(plan, wheels)[0].items():
        values, audit = plan.values_of_wheel(cells[name]), plan.of(cells[name]).audit
        properties: dict[str, list[str]] = {}
        for key, value in audit.variant_properties:
            if text := substitute(value, values):
                properties.setdefault(key, []).append(text)
        declared = Declared(substitute(audit.variant_label, values), properties)
        result |= dict.fromkeys(matched, declared)
    return result
