"""The cells that a pull request builds: few, and all of the matrix elsewhere. The same plan always gives the same cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from bakery.plan.cells import Cell
from bakery.plan.model import Plan


def for_pull_request(plan: Plan) -> Plan:
    """Return the plan with the cells that ``ci.pull-request`` names, those of all systems; itself if these are all.

    Raises:
        UsageError: its patterns match no cell.
    """
    how = plan.ci.pull_request if plan.ci else "all"
    cells = (*plan.cells, *plan.cibuildwheel_cells)
    match how:
        case "all":
            return plan
        case "cover":
            globs = tuple(cell.id for cell in covering(cells))
        case "first":
            globs = tuple({cell.platform: cell.id for cell in reversed(cells)}.values())
        case _:
            globs = tuple(how)
    chosen = {cell.id for cell in replace(plan, cells=cells, cibuildwheel_cells=()).filter_by_pattern(globs).cells}
    if len(chosen) == len(cells):
        return plan
    others = tuple(cell for cell in plan.cibuildwheel_cells if cell.id in chosen)
    return replace(plan.filter_by_id(chosen), cibuildwheel_cells=others)


def covering(cells: Sequence[Cell]) -> list[Cell]:
    """Return few of the cells, in their order, so that every pair of values of two axes that some cell has is in one of them.

    Each step takes the cell with the most pairs that are not covered yet, the first of several. That is not always the
    smallest set; finding it takes exponential time.
    """
    pairs = {cell.id: set(combinations(sorted(cell.axes.items()), 2)) for cell in cells}
    missing = set().union(*pairs.values())
    chosen = set()
    while missing:
        best = max(cells, key=lambda cell: len(pairs[cell.id] & missing))
        chosen.add(best.id)
        missing -= pairs[best.id]
    return [cell for cell in cells if cell.id in chosen]
