"""Groups of cells: the jobs of a CI, and shards. The same plan always gives the same groups.

Cells that share a compile stay in one group. They are sorted by the stages that they share, then cut into groups of nearly
equal size.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bakery.core.errors import UsageError
from bakery.plan.cells import Cell
from bakery.plan.dockerfile import Role
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage

MOST_JOBS = 256
"""Jobs that a matrix of a GitHub Actions workflow may have."""


@dataclass(frozen=True, slots=True)
class CellGroup:
    """One or more cells of one recipe that are built together."""

    plan: Plan
    cells: tuple[Cell, ...]

    @property
    def platform(self) -> str:
        """The platform of the first cell; of all cells in groups of `job_groups`."""
        return self.cells[0].platform

    @property
    def name(self) -> str:
        """The name of the job; unique in the plan."""
        more = len(self.cells) - 1
        return self.cells[0].id + (f"+{more}" if more else "")


def job_groups(plans: Sequence[Plan], most: int = MOST_JOBS) -> list[CellGroup]:
    """Return all cells in at most ``most`` groups, each of one recipe and one platform.

    Cells that share a compile are one group. If these are too many, neighbours are joined.

    Raises:
        UsageError: there are more recipes and platforms than ``most``.
    """
    groups = [group for plan in plans for group in _compile_groups(plan)]
    kinds = len({_kind(group) for group in groups})
    if kinds > most:
        raise UsageError(
            f"{kinds} jobs are needed, one for each recipe and platform, and {most} are allowed",
            hint="plan fewer recipes at once",
        )
    return groups if len(groups) <= most else [_joined(run) for run in _cut(groups, most, mixed=False)]


def select_shard(plans: Sequence[Plan], number: int, of: int) -> list[CellGroup]:
    """Return shard ``number`` (from 1) of ``of``: one group for each recipe that has cells in it.

    Shards are empty if all recipes together have fewer compiles than there are shards.
    """
    groups = [group for plan in plans for group in _compile_groups(plan)]
    runs = _cut(groups, min(of, len(groups)), mixed=True)
    members = runs[number - 1] if number <= len(runs) else []
    by_plan = [[group for group in members if group.plan is plan] for plan in plans]
    return [_joined(part) for part in by_plan if part]


def _joined(groups: Sequence[CellGroup]) -> CellGroup:
    return CellGroup(groups[0].plan, tuple(cell for group in groups for cell in group.cells))


def _kind(group: CellGroup) -> tuple[str, str]:
    return group.plan.recipe, group.platform


def _compile_groups(plan: Plan) -> list[CellGroup]:
    """Return the groups of cells that must stay together, each next to the groups that it shares most stages with."""
    lineage = Lineage(plan)
    digests = {cell.id: lineage.of(cell) for cell in plan.cells}
    compiles = [stage.name for stage in plan.stages if stage.role is Role.COMPILE]
    # A shared wheel is published once all its cells passed; a shared compile runs once.
    shared_keys = {
        cell.id: [cell.built_by, *(digests[cell.id][stage] for stage in compiles if stage in digests[cell.id])]
        for cell in plan.cells
    }
    first: dict[str, int] = {}
    for cell in plan.cells:
        for digest in digests[cell.id].values():
            first.setdefault(digest, len(first))
    platforms = list(dict.fromkeys(cell.platform for cell in plan.cells))

    def sort_key(cells: Sequence[Cell]) -> tuple[int, list[int]]:
        # By the stages from the root on, so that neighbours have the longest common beginning.
        by_stage = digests[cells[0].id]
        stages = sorted(by_stage, key=lambda name: lineage.order.get(name, -1))
        return platforms.index(cells[0].platform), [first[by_stage[name]] for name in stages]

    return [CellGroup(plan, tuple(cells)) for cells in sorted(_connected(plan.cells, shared_keys), key=sort_key)]


def _connected(cells: Sequence[Cell], keys: Mapping[str, Sequence[str]]) -> list[list[Cell]]:
    """Return the cells in groups, in the order of ``cells``: two cells with a common key are in one group."""
    leader: dict[str, str] = {}

    def find(key: str) -> str:
        while (above := leader.setdefault(key, key)) != key:
            leader[key] = leader[above]
            key = leader[key]
        return key

    for cell in cells:
        first, *others = keys[cell.id]
        for other in others:
            leader[find(other)] = find(first)
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(find(keys[cell.id][0]), []).append(cell)
    return list(groups.values())


def _cut(groups: Sequence[CellGroup], count: int, *, mixed: bool) -> list[list[CellGroup]]:
    """Cut ``groups`` into at most ``count`` runs of neighbours, so that the largest run is as small as possible.

    Args:
        mixed: a run may have cells of several recipes and platforms.
    """
    sizes = [len(group.cells) for group in groups]
    breaks = [not mixed and bool(at) and _kind(groups[at]) != _kind(groups[at - 1]) for at in range(len(groups))]

    def needed(start: int, capacity: int) -> int:
        """Return how many runs of at most ``capacity`` cells the groups from ``start`` on need."""
        runs, size = 0, 0
        for at in range(start, len(groups)):
            if at == start or breaks[at] or size + sizes[at] > capacity:
                runs, size = runs + 1, 0
            size += sizes[at]
        return runs

    least = max(sizes, default=0)
    enough = bisect_left(range(least, sum(sizes)), True, key=lambda capacity: needed(0, capacity) <= count)
    low = least + enough
    cut: list[list[CellGroup]] = []
    rest = sum(sizes)
    at = 0
    while at < len(groups):
        left = count - len(cut)
        fair, size, start = math.ceil(rest / left), 0, at
        while at < len(groups):
            fits = not breaks[at] and size + sizes[at] <= low
            # A run with its fair share ends, if the other runs can take the rest.
            if at > start and (not fits or (size >= fair and needed(at, low) < left)):
                break
            size += sizes[at]
            at += 1
        cut.append(list(groups[start:at]))
        rest -= size
    return cut
