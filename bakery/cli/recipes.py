"""Command line → plans."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.cli.console import say
from bakery.core.errors import UsageError

if TYPE_CHECKING:
    from bakery.plan.model import Plan
    from bakery.resolve.rules.caching import Host
    from bakery.resolve.rules.rule import Finding


def plans(
    references: list[str] | None,
    sets: list[str] | None,
    *,
    root: Path | None = None,
    bake: bool = False,
    builder: str | None = None,
    dated: bool = True,
) -> list[tuple[Path, Plan]]:
    """Return (project root, plan) of every recipe on the command line. Prints the warnings of rules.

    Recipes get the variables of ``--set`` that they have.

    Args:
        bake: also check what the machine of the engine must have, and the source to be sent to it.
        builder: the builder of buildx; None for the current one.
        dated: if nothing sets SOURCE_DATE_EPOCH, use the time of the source's last commit.

    Raises:
        BakeryError: a recipe cannot be loaded or resolved, breaks a rule, or no recipe has a variable that was set.
    """
    resolved_plans = resolved(references, sets, root or Path.cwd(), dated=dated)
    for folder, plan in resolved_plans:
        _check_rules(plan, _host(plan, builder) if bake else None)
        if bake:
            from bakery.build.context_warnings import warnings

            for line in warnings(folder, plan):
                say(f"warning: {plan.recipe}: {line}")
    return resolved_plans


def resolved(
    references: list[str] | None, sets: list[str] | None, cwd: Path, *, dated: bool
) -> list[tuple[Path, Plan]]:
    """Return the same as `plans`, without checking rules.

    Raises:
        BakeryError: a recipe cannot be loaded or resolved, or no recipe has a variable that was set.
    """
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


def _check_rules(plan: Plan, host: Host | None) -> None:
    """Print the warnings of rules.

    Raises:
        PlanError: the plan breaks rules; lists all of them.
    """
    from bakery.cli.tables.rules import refusal
    from bakery.resolve.rules import judge
    from bakery.resolve.rules.rule import Severity

    findings = judge(plan, host)
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
