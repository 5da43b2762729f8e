"""Command line → plans; ``--shard`` and ``--since`` select some of their cells."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.cli.console import say
from bakery.core.errors import BakeryError, UsageError
from bakery.core.names import RECIPE
from bakery.core.text import count

if TYPE_CHECKING:
    from bakery.core.source_manifest import SourceManifest
    from bakery.plan.cells import Cell
    from bakery.plan.model import Plan
    from bakery.resolve.changed_cells import Change
    from bakery.resolve.rules.cache_use import Host
    from bakery.resolve.rules.rule import Finding
    from bakery.runs.run_options import Options

Plans = list[tuple[Path, "Plan"]]
"""Project root and plan of each recipe."""

Skipped = dict[str, dict[str, str]]
"""Recipe → cell → why it is skipped."""


def plans(
    references: list[str] | None,
    sets: list[str] | None,
    *,
    bake: bool = False,
    source: bool = False,
    shows: bool = False,
    dated: bool = True,
) -> Plans:
    """Return the `resolved` plans of the command line, which keep the rules, as `checked` says.

    Raises BakeryError if a recipe cannot be loaded or resolved, breaks a rule, or no recipe has a variable that was set.
    """
    return checked(resolved(references, sets, Path.cwd(), dated=dated), bake=bake, source=source or shows, shows=shows)


def ok(plan: Plan) -> str:
    """Return the line that says that a recipe is right, and how many cells and targets it has."""
    elsewhere = len(plan.cibuildwheel_cells)
    cells = count(len(plan.cells) + elsewhere, "cell") + (f" ({elsewhere} with cibuildwheel)" if elsewhere else "")
    return f"{plan.recipe}: ok, {cells}, {count(sum(1 for _ in plan.targets()), 'target')}"


def checked(
    plans: Plans,
    *,
    bake: bool = False,
    source: bool = False,
    shows: bool = False,
    builder: str | None = None,
    options: Options | None = None,
) -> Plans:
    """Return plans that keep the rules. Prints the warnings of rules.

    With ``source``, also check the source folder; with ``bake``, that and what the machine of ``builder`` must have; with
    ``shows``, what is wrong with the source folder is a warning. ``options``: those of the bake. Raises PlanError or
    OutputError.
    """
    from bakery.init.stable_abi import read_project
    from bakery.resolve.rules import judge
    from bakery.resolve.rules.findings import refuse_broken

    for folder, plan in plans:
        host = _host(plan, builder) if bake else None
        found = _source(folder, plan, options) if bake or source else None
        findings = judge(plan, host, read_project(plan, found) if found else None)
        refuse_broken(plan, judge(plan, host) if shows else findings)
        print_warnings(plan, findings)
        if bake and found:
            from bakery.runs.source_files import warnings

            for line in warnings(plan, found):
                say(f"warning: {plan.recipe}: {line}")
    return plans


def _host(plan: Plan, builder: str | None) -> Host:
    from bakery.runs.building_host import building_host

    return building_host(plan, builder, os.environ)


def _source(root: Path, plan: Plan, options: Options | None) -> SourceManifest:
    from bakery.runs.source_files import source_of

    return source_of(root, plan, options.output, options.sources) if options else source_of(root, plan)


def resolved(references: list[str] | None, sets: list[str] | None, cwd: Path, *, dated: bool) -> Plans:
    """Return (project root, plan) of every recipe of the command line, unchecked. Raises BakeryError.

    Recipes get the variables of ``--set`` that they have. With ``dated``, SOURCE_DATE_EPOCH is by default the time of the
    source's last commit.
    """
    from bakery.core.git import committed
    from bakery.recipe.load import load
    from bakery.resolve.plan import resolve
    from bakery.resolve.set_option import parse_set_options
    from bakery.resolve.settings import check_environment, settable

    loaded = [item for reference in (references or (None,)) for item in load(reference, cwd)]
    options = parse_set_options(sets or ())
    all_names = set().union(*map(settable, loaded))
    if len(loaded) > 1 and (unknown := options.set_variables - all_names):
        raise UsageError(f"no recipe has variable {min(unknown)}", hint=f"they have {', '.join(sorted(all_names))}")
    check_environment(os.environ, all_names)
    # Files that are committed are those of any moment.
    environ = {name: text for name, text in os.environ.items() if dated or name != "SOURCE_DATE_EPOCH"}
    return [
        (
            item.root,
            resolve(
                item,
                options.for_variables(settable(item)) if len(loaded) > 1 else options,
                environ,
                committed(item.source) if dated and item.source else None,
            ),
        )
        for item in loaded
    ]


def print_warnings(plan: Plan, findings: Sequence[Finding]) -> None:
    """Print the warnings of rules."""
    from bakery.resolve.rules.findings import lines

    for line in lines(findings, len(plan.cells) + len(plan.cibuildwheel_cells)):
        say(line if line.startswith(" ") else f"warning: {plan.recipe}: {line}")


def cell_named(name: str, plans: Plans) -> tuple[Path, Plan, Cell]:
    """Return project, plan and cell of a cell's id. Raises UsageError if no recipe bakes it, or several do."""
    from bakery.recipe.problems import nearest

    chosen = [(root, plan, cell) for root, plan in plans for cell in plan.cells if cell.id == name]
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        recipes = ", ".join(plan.recipe for _, plan, _ in chosen)
        raise UsageError(f"several recipes have a cell {name}: {recipes}", hint="choose one with --recipe")
    if any(cell.id == name for _, plan in plans for cell in plan.cibuildwheel_cells):
        raise UsageError(f"cell {name} is not baked: cibuildwheel builds it", hint="its output has times and messages")
    known = dict.fromkeys(cell.id for _, plan in plans for cell in (*plan.cells, *plan.cibuildwheel_cells))
    close = nearest(name, known, 0.85)
    raise UsageError(
        f"no recipe has a cell {name}", hint=f"did you mean {close!r}?" if close else f"cells are {', '.join(known)}"
    )


def narrow(
    plans: Plans, references: list[str] | None, sets: list[str] | None, only: Sequence[str], shard: str | None,
    since: str | None, system: str = "linux", options: Options | None = None,
) -> tuple[Plans, Skipped]:  # fmt: skip
    """Return the plans with the cells of a system that ``--shard`` and ``--since`` select, and why others are skipped.

    Plans without selected cells are left out. ``only`` applies before ``shard``. ``options``: those of the bake. Raises UsageError if an option is
    malformed, or git has no such revision.
    """
    skipped: Skipped = {}
    plans = [(root, plan.for_system(system)) for root, plan in plans]
    if since is not None:
        plans = _since(plans, references, sets, since, skipped, system, options)
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
    plans: Plans, references: list[str] | None, sets: list[str] | None, revision: str, skipped: Skipped, system: str,
    options: Options | None,
) -> Plans:  # fmt: skip
    from bakery.core.inside import temporary_tree
    from bakery.resolve import changed_cells
    from bakery.runs.lock.differences import relocked

    # The repository is that of the working folder, where recipes are searched.
    change = changed_cells.changes_since(Path.cwd(), revision)
    now = {plan.recipe: plan.for_system(system) for _, plan in resolved(references, sets, Path.cwd(), dated=False)}
    selected = []
    for root, plan in plans:
        with temporary_tree("bakery-") as folder:
            old = _plan_at(folder, change, references, sets, plan.recipe)
            before = old if isinstance(old, str) else old.for_system(system)
            source, locks = _source(root, plan, options), relocked(root, plan, change)
            affected = changed_cells.affected_cells(now[plan.recipe], before, change, source, locks)
        skipped[plan.recipe] = dict(affected.skipped)
        if affected.built:
            selected.append((root, plan.filter_by_id(affected.built)))
    return selected


def _plan_at(
    folder: Path, change: Change, references: list[str] | None, sets: list[str] | None, recipe: str
) -> Plan | str:
    """Return the plan of a recipe at the revision, or why there is none."""
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
