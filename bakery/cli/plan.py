"""``wheel-bakery plan`` and ``wheel-bakery check``: pure Python, no engine."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import echo, echo_json, echo_text, out, say
from bakery.cli.recipes import narrow, ok, plans
from bakery.core.cell_ids import platform_of
from bakery.core.errors import PlanError
from bakery.core.target_kinds import Kind

if TYPE_CHECKING:
    from bakery.cli.recipes import Plans
    from bakery.plan.model import Plan


def plan(
    recipe: parameters.Recipes = None,
    set_: parameters.Sets = None,
    only: parameters.Only = None,
    skip: parameters.Skip = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show every value and where it comes from.")] = False,
    size: Annotated[
        bool,
        typer.Option(
            "--size",
            help="Show the size of the wheels in the last runs, an estimate for cells that were not built, and the sum.",
        ),
    ] = False,
    json: parameters.AsJson = False,
    shard: parameters.Shard = None,
    since: parameters.Since = None,
    pull_request: parameters.PullRequest = False,
    builder: Annotated[
        str | None,
        typer.Option(
            "--builder",
            help="Ask the nodes of a builder ([builders.NAME]) which platforms they have.",
            envvar="BAKERY_BUILDER",
            metavar="NAME",
        ),
    ] = None,
    github_matrix: Annotated[
        bool,
        typer.Option(
            "--github-matrix",
            help="Print the cells as a matrix for GitHub Actions, of at most 256 jobs. Cells that share a compile are in "
            "one job.",
        ),
    ] = False,
) -> None:
    """Show the plan: cells, how each platform is built, and every value. Needs no engine.

    Example: wheel-bakery plan --explain --set CUDA_VERSION=12.8.0
    """
    from bakery.cli.tables import plan as report
    from bakery.plan.pull_request import for_pull_request

    patterns = parameters.globs(only, skip)
    planned = plans(recipe, set_, shows=True)
    if pull_request:
        planned = [(root, for_pull_request(item)) for root, item in planned]
    selected, skipped = narrow(planned, recipe, set_, patterns, shard, since)
    chosen = [item for _, item in selected]
    if github_matrix:
        echo(report.github_matrix(chosen, patterns))
        return
    if size:
        _print_sizes(selected, patterns, json=json)
    elif json:
        echo_json(report.to_json(chosen, patterns, skipped, _platforms(chosen, builder), explain=explain))
    else:
        platforms = {} if explain else _platforms(chosen, builder)
        for item in chosen:
            if explain:
                out.print(report.origins(item))
            else:
                report.print_cells(out, item, patterns, platforms[item.recipe])
        report.print_skipped(out, skipped)
        if not chosen:
            echo("nothing to bake")


def _print_sizes(plans: Plans, patterns: tuple[str, ...], *, json: bool) -> None:
    """Print the size of each cell and project. Raises PlanError if a release does not fit into its project's limit."""
    from bakery.cli.tables import size as report
    from bakery.cli.tables.plan import selected
    from bakery.release.coverage import named_project
    from bakery.release.size import LIMIT_HINT, by_project, plan_size
    from bakery.runs.run_folders import state_folder

    recipes, parts = {}, []
    for root, item in plans:
        if Kind.WHEEL in item.kinds:
            # Perhaps only the built wheel has its name.
            name = named_project(item, root) or item.recipe
            state = state_folder(root, os.environ)
            recipes[item.recipe], part = plan_size(item, selected(item, patterns), state, name)
            parts.append(part)
    projects = by_project(parts)
    if json:
        echo_json(report.to_json(recipes, projects))
    else:
        for recipe, cells in recipes.items():
            echo_text(report.lines(recipe, cells))
        for project in projects:
            echo(report.total(project))
    if any(project.unknown for project in projects):
        say("a recipe has no estimates before one of its cells is built: wheel-bakery wheel --only CELL")
    if faults := [fault for project in projects if (fault := project.fault)]:
        raise PlanError("the release is too large", details=faults, hint=LIMIT_HINT)


def _platforms(chosen: Sequence[Plan], builder: str | None) -> dict[str, dict[str, str]]:
    """Return recipe → cell → how its platform is provided: by a builder's nodes or this machine. No engine runs."""
    from bakery.engine import platform_support
    from bakery.engine.builder_config import nodes_of
    from bakery.engine.memory_peaks import is_here
    from bakery.engine.qemu import emulated

    if nodes := nodes_of(builder, Path.cwd()) if builder else ():
        from bakery.cli.builders import node_client

        statuses = node_client().statuses(nodes)
        return {item.recipe: platform_support.on_nodes(item, statuses) for item in chosen}
    if not is_here(os.environ):
        return {item.recipe: {} for item in chosen}
    native = platform_of(platform.machine())
    return {item.recipe: platform_support.here(item, native, emulated) for item in chosen}


def check(recipe: parameters.Recipes = None, set_: parameters.Sets = None) -> None:
    """Check recipes without an engine. Reports all problems at once, with their lines.

    Example: wheel-bakery check -r examples/cuda
    """
    for _, item in plans(recipe, set_, source=True):
        echo(ok(item))
