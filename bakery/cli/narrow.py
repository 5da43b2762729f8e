"""``--shard`` and ``--since``: select cells before anything else is done with them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.core.errors import BakeryError, UsageError
from bakery.core.names import RECIPE

if TYPE_CHECKING:
    from bakery.plan.model import Plan
    from bakery.resolve.changed_cells import Change

Plans = list[tuple[Path, "Plan"]]
Skipped = dict[str, dict[str, str]]
"""Recipe → cell → why it is skipped."""


def narrow(
    plans: Plans, references: list[str] | None, sets: list[str] | None, only: Sequence[str], shard: str | None,
    since: str | None, system: str = "linux",
) -> tuple[Plans, Skipped]:  # fmt: skip
    """Return the plans with the selected cells of a system, and why other cells are skipped.

    Plans without selected cells are rereferences_then. ``only`` applies before ``shard``. Raises UsageError if an
    option is malformed, or git has no such revision.
    """
    skipped: Skipped = {}
    plans = [(root, plan.for_system(system)) for root, plan in plans]
    if since is not None:
        plans = _since(plans, references, sets, since, skipped, system)
    return (_shard(plans, only, shard) if shard is not None else plans), skipped


def _shard(plans: Plans, only: Sequence[str], text: str) -> Plans:
    from bakery.plan import shards

    match = re.fullmatch(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})", text)
    if not match or int(match[1]) > int(match[2]):
        raise UsageError(f"--shard: expected I/N, such as 2/4, with I from 1 to N, got {text!r}")
    selected = [plan.filter_by_pattern(tuple(only)) for _, plan in plans]
    groups = shards.select_shard(selected, int(match[1]), int(match[2]))
    ids = {group.plan.recipe: [cell.id for cell in group.cells] for group in groups}
    return [(root, plan.filter_by_id(ids[plan.recipe])) for root, plan in plans if plan.recipe in ids]


def _since(
    plans: Plans, references: list[str] | None, sets: list[str] | None, revision: str, skipped: Skipped, system: str
) -> Plans:
    from bakery.cli.recipes import resolved
    from bakery.resolve import changed_cells

    # The repository is that of the working folder, where recipes are searched.
    change = changed_cells.changes_since(Path.cwd(), revision)
    now = {plan.recipe: plan.for_system(system) for _, plan in resolved(references, sets, Path.cwd(), dated=False)}
    selected = []
    for root, plan in plans:
        with tempfile.TemporaryDirectory(prefix="bakery-") as folder:
            old = _plan_at(Path(folder), change, references, sets, plan.recipe)
            before = old if isinstance(old, str) else old.for_system(system)
            affected = changed_cells.affected_cells(root, now[plan.recipe], before, change)
        skipped[plan.recipe] = dict(affected.skipped)
        if affected.built:
            selected.append((root, plan.filter_by_id(affected.built)))
    return selected


def _plan_at(
    folder: Path, change: Change, references: list[str] | None, sets: list[str] | None, recipe: str
) -> Plan | str:
    """Return the plan of a recipe at the revision, or why there is none."""
    from bakery.cli.recipes import resolved
    from bakery.resolve import changed_cells

    changed_cells.write_old_recipes(change, folder)
    top = change.top.resolve()
    cwd = folder / Path.cwd().resolve().relative_to(top)
    cwd.mkdir(parents=True, exist_ok=True)
    references_then = []
    for reference in references or ():
        # `load` distinguishes names and paths in the same way.
        path = Path(os.path.normpath(Path.cwd() / reference)).resolve()
        is_name = bool(RECIPE.match(reference))
        if not is_name and not path.is_relative_to(top):
            return f"the recipe {reference} is outside the repository"
        references_then.append(reference if is_name else str(folder / path.relative_to(top)))
    try:
        plans = {plan.recipe: plan for _, plan in resolved(references_then or None, sets, cwd, dated=False)}
    except BakeryError as error:
        return f"the recipe of {change.revision} cannot be planned: {error.message}"
    return plans.get(recipe, f"there was no recipe {recipe} at {change.revision}")
