"""Cells in parcels: jobs of a CI, and shards. What compiles once is never compiled in two of them.

The cells stand in the order of what they share and are cut into parcels of nearly equal size; the same plan gives the
same parcels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bakery.errors import UsageError
from bakery.lineage import Lineage
from bakery.plan import Cell, Plan

COMPILES = ("native", "compile")
"""Stages that compile the project: cells that share one of them stay together."""

MOST_JOBS = 256
"""Jobs that one run of a GitHub Actions workflow may make of a matrix."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Cells of one recipe that are baked together, at least one."""

    plan: Plan
    cells: tuple[Cell, ...]

    @property
    def platform(self) -> str:
        """The platform of the first cell; of all of them in what `parcels` makes."""
        return self.cells[0].platform

    @property
    def name(self) -> str:
        """Names the job: no other parcel of the plan has it."""
        more = len(self.cells) - 1
        return self.cells[0].id + (f"+{more}" if more else "")


def parcels(plans: Sequence[Plan], most: int = MOST_JOBS) -> list[Parcel]:
    """Return all cells in at most ``most`` parcels, each of one recipe and one platform.

    What is compiled once is one parcel; where that makes too many, neighbours share one.

    Raises:
        UsageError: there are more recipes and platforms than parcels.
    """
    groups = [group for plan in plans for group in _groups(plan)]
    kinds = len({_kind(group) for group in groups})
    if kinds > most:
        raise UsageError(
            f"{kinds} jobs are needed, one for each recipe and platform, and {most} are allowed",
            hint="plan fewer recipes at once",
        )
    return groups if len(groups) <= most else [_joined(run) for run in _cut(groups, most, apart=True)]


def shard(plans: Sequence[Plan], number: int, of: int) -> list[Parcel]:
    """Return shard ``number`` (from 1 on) of ``of``: one parcel for each recipe that has cells in it.

    There are none where all recipes together have fewer compiles than there are shards.
    """
    groups = [group for plan in plans for group in _groups(plan)]
    runs = _cut(groups, min(of, len(groups)), apart=False)
    mine = runs[number - 1] if number <= len(runs) else []
    return [
        _joined([group for group in mine if group.plan is plan])
        for plan in plans
        if any(group.plan is plan for group in mine)
    ]


def _joined(groups: Sequence[Parcel]) -> Parcel:
    return Parcel(groups[0].plan, tuple(cell for group in groups for cell in group.cells))


def _kind(group: Parcel) -> tuple[str, str]:
    return group.plan.recipe, group.platform


def _groups(plan: Plan) -> list[Parcel]:
    """Return the cells that must stay together, each group beside those that it shares most with."""
    lineage = Lineage(plan)
    made = {cell.id: lineage.of(cell) for cell in plan.cells}
    # A shared wheel is published once all its cells passed; a shared compile is done once.
    bonds = {
        cell.id: [cell.built_by, *(made[cell.id][stage] for stage in COMPILES if stage in made[cell.id])]
        for cell in plan.cells
    }
    first: dict[str, int] = {}
    for cell in plan.cells:
        for digest in made[cell.id].values():
            first.setdefault(digest, len(first))
    platforms = list(dict.fromkeys(cell.platform for cell in plan.cells))

    def sharing(cells: Sequence[Cell]) -> tuple[int, list[int]]:
        # By the stages from the root on: neighbours have the longest common beginning.
        own = made[cells[0].id]
        stages = sorted(own, key=lambda name: lineage.order.get(name, -1))
        return platforms.index(cells[0].platform), [first[own[name]] for name in stages]

    return [Parcel(plan, tuple(cells)) for cells in sorted(_connected(plan.cells, bonds), key=sharing)]


def _connected(cells: Sequence[Cell], bonds: Mapping[str, Sequence[str]]) -> list[list[Cell]]:
    """Return the cells in groups: two that have a bond in common are in one, in the order of ``cells``."""
    leader: dict[str, str] = {}

    def find(key: str) -> str:
        while (above := leader.setdefault(key, key)) != key:
            leader[key] = leader[above]
            key = leader[key]
        return key

    for cell in cells:
        first, *others = bonds[cell.id]
        for other in others:
            leader[find(other)] = find(first)
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(find(bonds[cell.id][0]), []).append(cell)
    return list(groups.values())


def _cut(groups: Sequence[Parcel], count: int, *, apart: bool) -> list[list[Parcel]]:
    """Cut ``groups`` into at most ``count`` runs of neighbours whose largest is as small as can be.

    Args:
        apart: no run has cells of two recipes or platforms.
    """
    sizes = [len(group.cells) for group in groups]
    breaks = [apart and bool(at) and _kind(groups[at]) != _kind(groups[at - 1]) for at in range(len(groups))]

    def needed(start: int, capacity: int) -> int:
        """Return how many runs of at most ``capacity`` cells the groups from ``start`` on need."""
        runs, size = 0, 0
        for at in range(start, len(groups)):
            if at == start or breaks[at] or size + sizes[at] > capacity:
                runs, size = runs + 1, 0
            size += sizes[at]
        return runs

    low, high = max(sizes, default=0), sum(sizes)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if needed(0, middle) <= count else (middle + 1, high)
    made: list[list[Parcel]] = []
    rest = sum(sizes)
    at = 0
    while at < len(groups):
        left = count - len(made)
        fair, size, start = math.ceil(rest / left), 0, at
        while at < len(groups):
            fits = not breaks[at] and size + sizes[at] <= low
            # A run that has its share ends, if the others can take what is left.
            if at > start and (not fits or (size >= fair and needed(at, low) < left)):
                break
            size += sizes[at]
            at += 1
        made.append(list(groups[start:at]))
        rest -= size
    return made
