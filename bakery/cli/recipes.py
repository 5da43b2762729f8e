"""Command line → plans."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.cli.console import say
from bakery.core.errors import UsageError

if TYPE_CHECKING:
    from bakery.plan.model import Plan
    from bakery.resolve.rules.caching import Host


def plans(
    references: list[str] | None,
    sets: list[str] | None,
    *,
    root: Path | None = None,
    bake: bool = False,
    builder: str | None = None,
    dated: bool = True,
) -> list[tuple[Path, Plan]]:
    """Return (project root, plan) of every recipe that the command line names.

    A variable given with ``--set`` goes to the recipes that have it.

    Args:
        bake: they are to be built now, so that the engine's machine must have what they need.
        builder: the builder of buildx that is to do it; None for the current one.
        dated: SOURCE_DATE_EPOCH follows the source's last commit, where nothing sets it.

    Raises:
        BakeryError: a recipe cannot be loaded or resolved, breaks a rule, or no recipe has a variable that was set.
    """
    found = resolved(references, sets, root or Path.cwd(), dated=dated)
    for place, plan in found:
        _judge(plan, _host(plan, builder) if bake else None)
        if bake:
            _look_at_source(place, plan)
    return found


def resolved(
    references: list[str] | None, sets: list[str] | None, cwd: Path, *, dated: bool
) -> list[tuple[Path, Plan]]:
    """As `plans`, without a word about rules.

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


def _look_at_source(root: Path, plan: Plan) -> None:
    """Say what is odd about what will be sent to the engine."""
    from bakery.build.context_warnings import warnings

    for line in warnings(root, plan):
        say(f"warning: {plan.recipe}: {line}")


def _judge(plan: Plan, host: Host | None) -> None:
    """Say what rules warn of in a plan.

    Raises:
        PlanError: the plan breaks rules; all of them at once.
    """
    from bakery.cli.tables.rules import lines, refusal
    from bakery.resolve.rules import judge
    from bakery.resolve.rules.rule import Severity

    findings = judge(plan, host)
    errors = [finding for finding in findings if finding.rule.severity is Severity.ERROR]
    if errors:
        raise refusal(plan.recipe, errors, len(plan.cells) + len(plan.cibuildwheel_cells))
    for line in lines(findings, len(plan.cells) + len(plan.cibuildwheel_cells)):
        say(line if line.startswith(" ") else f"warning: {plan.recipe}: {line}")


def _host(plan: Plan, builder: str | None) -> Host:
    """Return what a plan's rules ask of the machine that is to build it: nothing is asked that no rule looks at."""
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
    # The nodes of a builder of the configuration are BuildKit itself, which writes every kind.
    return replace(host, exports=exports(driver, info.store), engine=f"driver {driver}") if driver else host
