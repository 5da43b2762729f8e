"""Command line → plans; ``--shard`` and ``--since`` select some of their cells."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.cli.console import say
from bakery.core.errors import BakeryError, UsageError
from bakery.core.names import RECIPE

if TYPE_CHECKING:
    from bakery.plan.model import Plan
    from bakery.resolve.changed_cells import Change
    from bakery.resolve.rules.caching import Host
    from bakery.resolve.rules.rule import Finding

Plans = list[tuple[Path, "Plan"]]
"""Project root and plan of each recipe."""

Skipped = dict[str, dict[str, str]]
"""Recipe → cell → why it is skipped."""


def plans(
    references: list[str] | None,
    sets: list[str] | None,
    *,
    root: Path | None = None,
    bake: bool = False,
    source: bool = False,
    builder: str | None = None,
    dated: bool = True,
) -> Plans:
    """Return (project root, plan) of every recipe on the command line. Prints the warnings of rules.

    Recipes get the variables of ``--set`` that they have. With ``source``, also check the source folder; with ``bake``, that
    and what the machine of ``builder`` must have. With ``dated``, SOURCE_DATE_EPOCH is by default the time of the source's last commit. Raises
    BakeryError if a recipe cannot be loaded or resolved, breaks a rule, or no recipe has a variable that was set.
    """
    return checked(
        resolved(references, sets, root or Path.cwd(), dated=dated), bake=bake, source=source, builder=builder
    )


def checked(plans: Plans, *, bake: bool = False, source: bool = False, builder: str | None = None) -> Plans:
    """Return plans that keep the rules, as `plans` does. Raises PlanError."""
    for folder, plan in plans:
        _check_rules(plan, _host(plan, builder) if bake else None, folder if bake or source else None)
        if bake:
            from bakery.build.context_files import warnings

            for line in warnings(folder, plan):
                say(f"warning: {plan.recipe}: {line}")
    return plans


def resolved(references: list[str] | None, sets: list[str] | None, cwd: Path, *, dated: bool) -> Plans:
    """Return the same as `plans`, without checking rules. Raises BakeryError."""
    from bakery.core.git import committed
    from bakery.recipe.load import load
    from bakery.resolve.plan import resolve
    from bakery.resolve.set_option import parse_set_options
    from bakery.resolve.settings import settable

    loaded = [item for reference in (references or (None,)) for item in load(reference, cwd)]
    options = parse_set_options(sets or ())
    all_names = set().union(*map(settable, loaded))
    if len(loaded) > 1 and (unknown := options.variables.keys() - all_names):
        raise UsageError(f"no recipe has variable {min(unknown)}", hint=f"they have {', '.join(sorted(all_names))}")
    return [
        (
            item.root,
            resolve(
                item,
                options.for_variables(settable(item)) if len(loaded) > 1 else options,
                os.environ,
                committed(item.source) if dated and item.source else None,
            ),
        )
        for item in loaded
    ]


def _check_rules(plan: Plan, host: Host | None, root: Path | None) -> None:
    """Print the warnings of rules. Raises PlanError if the plan breaks rules; lists all of them."""
    from bakery.cli.tables.rules import refusal
    from bakery.resolve.rules import judge
    from bakery.resolve.rules.project import read_project
    from bakery.resolve.rules.rule import Severity

    findings = judge(plan, host, read_project(root, plan) if root else None)
    errors = [finding for finding in findings if finding.rule.severity is Severity.ERROR]
    if errors:
        raise refusal(plan.recipe, errors, len(plan.cells) + len(plan.cibuildwheel_cells))
    print_warnings(plan, findings)


def print_warnings(plan: Plan, findings: Sequence[Finding]) -> None:
    """Print the warnings of rules."""
    from bakery.cli.tables.rules import lines

    for line in lines(findings, len(plan.cells) + len(plan.cibuildwheel_cells)):
        say(line if line.startswith(" ") else f"warning: {plan.recipe}: {line}")


def _host(plan: Plan, builder: str | None) -> Host:
    """Return the facts about the building machine that rules for this plan need; others are not queried."""
    import time

    from bakery.build.buildx import gha_cache_env
    from bakery.core.errors import EngineError
    from bakery.core.names import CacheBackend
    from bakery.engine.client import Engine, exports
    from bakery.engine.discover import find
    from bakery.engine.host import memory
    from bakery.resolve.rules.caching import Host
    from bakery.resolve.rules.case import limits_jobs

    backend, limited = plan.cache.backend, limits_jobs(plan)
    if backend is CacheBackend.NONE and not limited:
        return Host()
    end = gha_cache_env.expiry(os.environ)
    host = Host(
        memory=memory() if limited else 0,
        lacking=gha_cache_env.lacking(os.environ) if backend is CacheBackend.GHA else (),
        token_s=None if end is None else end - time.time(),
    )
    try:
        engine = Engine({**os.environ, **find(os.environ).environment})
        info = engine.info()
        driver = engine.driver(builder) if backend is not CacheBackend.NONE else ""
    except EngineError:
        return host
    host = replace(host, memory=info.memory if limited else 0)
    # Nodes of a configured builder are BuildKit itself, which exports every kind of cache.
    return replace(host, exports=exports(driver, info.store), engine=f"driver {driver}") if driver else host


def narrow(
    plans: Plans, references: list[str] | None, sets: list[str] | None, only: Sequence[str], shard: str | None,
    since: str | None, system: str = "linux",
) -> tuple[Plans, Skipped]:  # fmt: skip
    """Return the plans with the cells of a system that ``--shard`` and ``--since`` select, and why others are skipped.

    Plans without selected cells are left out. ``only`` applies before ``shard``. Raises UsageError if an option is
    malformed, or git has no such revision.
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
