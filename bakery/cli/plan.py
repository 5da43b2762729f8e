"""``wheel-bakery plan`` and ``wheel-bakery check``: pure Python, no engine."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import options
from bakery.cli.console import out
from bakery.cli.recipes import plans
from bakery.core.names import platform_of

if TYPE_CHECKING:
    from bakery.plan.model import Plan


def plan(
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show every value and where it came from.")] = False,
    json: options.AsJson = False,
    shard: options.Shard = None,
    since: options.Since = None,
    builder: Annotated[
        str | None,
        typer.Option(
            "--builder",
            help="Say which nodes of a builder (\\[builders.NAME]) have the cells' platforms; they are asked.",
            envvar="BAKERY_BUILDER",
            metavar="NAME",
        ),
    ] = None,
    github_matrix: Annotated[
        bool,
        typer.Option(
            "--github-matrix",
            help="Print the cells as the matrix of a GitHub Actions job: at most 256 jobs; cells that compile together "
            "share one.",
        ),
    ] = False,
) -> None:
    """Show what would be baked: cells, how their platforms are had, values. Needs no engine.

    [dim]wheel-bakery plan --explain --set CUDA_VERSION=12.8.0[/dim]
    """
    from bakery.cli.narrow import narrow
    from bakery.cli.tables import plan as report

    some = tuple(only or ())
    narrowed, left = narrow(plans(recipe, set_), recipe, set_, some, shard, since)
    found = [item for _, item in narrowed]
    if github_matrix:
        from bakery.cli.tables.matrix import to_json as matrix

        out.print(matrix(found, some), soft_wrap=True, markup=False)
        return
    if explain and not json:
        for item in found:
            out.print(report.origins(item))
    else:
        ways = _ways(found, builder)
        if json:
            out.print(report.to_json(found, some, left, ways), soft_wrap=True, markup=False)
            return
        for item in found:
            report.print_cells(out, item, some, ways[item.recipe])
    report.print_left(out, left)
    if not found:
        out.print("nothing to bake", markup=False)


def _ways(found: Sequence[Plan], builder: str | None) -> dict[str, dict[str, str]]:
    """Return recipe → cell → how its platform is had: by the nodes of a builder, else by this machine.

    An engine elsewhere is not asked.
    """
    from bakery.engine import platform_support
    from bakery.engine.builder_config import nodes_of
    from bakery.engine.memory_peaks import is_here
    from bakery.engine.qemu import emulated

    if nodes := nodes_of(builder, Path.cwd()) if builder else ():
        from bakery.engine.discover import find_client
        from bakery.engine.nodes import Client

        looks = Client({**os.environ, **find_client(os.environ)}).look_at_all(nodes)
        return {item.recipe: platform_support.on_nodes(item, looks) for item in found}
    if not is_here(os.environ):
        return {item.recipe: {} for item in found}
    own = platform_of(platform.machine())
    return {item.recipe: platform_support.here(item, own, emulated) for item in found}


def check(recipe: options.Recipes = None, set_: options.Sets = None) -> None:
    """Check recipes without an engine: every problem at once, with its line.

    [dim]wheel-bakery check -r examples/cuda[/dim]
    """
    for _, item in plans(recipe, set_):
        targets = sum(1 for _ in item.targets())
        out.print(f"{item.recipe}: ok, {len(item.cells)} cells, {targets} targets", markup=False)
