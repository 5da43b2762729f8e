"""``--shard`` and ``--since``: fewer cells, before anything is done with them."""

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

Found = list[tuple[Path, "Plan"]]
Left = dict[str, dict[str, str]]
"""Recipe → cell → why it is left out."""


def narrow(
    found: Found, references: list[str] | None, sets: list[str] | None, only: Sequence[str], shard: str | None,
    since: str | None, system: str = "linux",
) -> tuple[Found, Left]:  # fmt: skip
    """Return the plans with the cells of a system that are meant, and what is left out of them and why.

    A plan of which nothing is left is no longer there. ``only`` counts before ``shard``.

    Raises:
        UsageError: an option cannot be understood, or git knows no such revision.
    """
    left: Left = {}
    found = [(root, plan.for_system(system)) for root, plan in found]
    if since is not None:
        found = _since(found, references, sets, since, left, system)
    return (_shard(found, only, shard) if shard is not None else found), left


def _shard(found: Found, only: Sequence[str], text: str) -> Found:
    from bakery.plan import shards

    match = re.fullmatch(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})", text)
    if not match or int(match[1]) > int(match[2]):
        raise UsageError(f"--shard: expected I/N, such as 2/4, with I from 1 to N, got {text!r}")
    chosen = [plan.filter_by_pattern(tuple(only)) for _, plan in found]
    mine = shards.select_shard(chosen, int(match[1]), int(match[2]))
    kept = {group.plan.recipe: [cell.id for cell in group.cells] for group in mine}
    return [(root, plan.filter_by_id(kept[plan.recipe])) for root, plan in found if plan.recipe in kept]


def _since(
    found: Found, references: list[str] | None, sets: list[str] | None, revision: str, left: Left, system: str
) -> Found:
    from bakery.cli.recipes import resolved
    from bakery.resolve import changed_cells

    # The repository is that of the folder which the recipes are looked for from.
    change = changed_cells.change(Path.cwd(), revision)
    now = {plan.recipe: plan.for_system(system) for _, plan in resolved(references, sets, Path.cwd(), dated=False)}
    kept = []
    for root, plan in found:
        with tempfile.TemporaryDirectory(prefix="bakery-") as folder:
            then = _then(Path(folder), change, references, sets, plan.recipe)
            before = then if isinstance(then, str) else then.for_system(system)
            judged = changed_cells.judge(root, now[plan.recipe], before, change)
        left[plan.recipe] = dict(judged.left)
        if judged.built:
            kept.append((root, plan.filter_by_id(judged.built)))
    return kept


def _then(
    folder: Path, change: Change, references: list[str] | None, sets: list[str] | None, recipe: str
) -> Plan | str:
    """Return the plan of a recipe at the revision; or why there is none."""
    from bakery.cli.recipes import resolved
    from bakery.resolve import changed_cells

    changed_cells.recipes_then(change, folder)
    top = change.top.resolve()
    cwd = folder / Path.cwd().resolve().relative_to(top)
    cwd.mkdir(parents=True, exist_ok=True)
    moved = []
    for reference in references or ():
        # As `load` tells names from paths.
        path = Path(os.path.normpath(Path.cwd() / reference)).resolve()
        is_name = bool(RECIPE.match(reference))
        if not is_name and not path.is_relative_to(top):
            return f"the recipe {reference} lies outside the repository"
        moved.append(reference if is_name else str(folder / path.relative_to(top)))
    try:
        plans = {plan.recipe: plan for _, plan in resolved(moved or None, sets, cwd, dated=False)}
    except BakeryError as error:
        return f"the recipe of {change.revision} cannot be planned: {error.message}"
    return plans.get(recipe, f"there was no recipe {recipe} at {change.revision}")
