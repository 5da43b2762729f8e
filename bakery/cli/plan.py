"""``bakery plan`` and ``bakery check``: pure Python, no engine."""

from __future__ import annotations

from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import out
from bakery.cli.recipes import plans


def plan(
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show every value and where it came from.")] = False,
    json: options.AsJson = False,
    shard: options.Shard = None,
    since: options.Since = None,
    github_matrix: Annotated[
        bool,
        typer.Option(
            "--github-matrix",
            help="Print the cells as the matrix of a GitHub Actions job: at most 256 jobs; cells that compile together "
            "share one.",
        ),
    ] = False,
) -> None:
    """Show what would be baked: cells, stages, values. Needs no engine.

    [dim]bakery plan --explain --set CUDA_VERSION=12.8.0[/dim]
    """
    from bakery.cli.narrow import narrow
    from bakery.report import plan as report

    some = tuple(only or ())
    narrowed, left = narrow(plans(recipe, set_), recipe, set_, some, shard, since)
    found = [item for _, item in narrowed]
    if github_matrix:
        from bakery.report.matrix import to_json as matrix

        out.print(matrix(found, some), soft_wrap=True, markup=False)
        return
    if json:
        out.print(report.to_json(found, some, left), soft_wrap=True, markup=False)
        return
    for item in found:
        if explain:
            out.print(report.origins(item))
        else:
            report.print_cells(out, item, some)
    report.print_left(out, left)
    if not found:
        out.print("nothing to bake", markup=False)


def check(recipe: options.Recipes = None, set_: options.Sets = None) -> None:
    """Check recipes without an engine: every problem at once, with its line.

    [dim]bakery check -r examples/cuda[/dim]
    """
    for _, item in plans(recipe, set_):
        targets = sum(1 for _ in item.targets())
        out.print(f"{item.recipe}: ok, {len(item.cells)} cells, {targets} targets", markup=False)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(plan)
    app.command()(check)
