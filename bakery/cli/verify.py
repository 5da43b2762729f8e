"""``wheel-bakery verify``: compare wheels with the plan. No engine."""

from __future__ import annotations

from bakery.cli import options
from bakery.cli.console import echo


def verify(
    wheels: options.Wheels,
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
) -> None:
    """Compare all wheels of a release with the plan: each planned wheel is there and as planned, and no other is.

    [dim]wheel-bakery verify dist/[/dim]
    """
    import os

    from bakery.cli.recipes import plans
    from bakery.cli.wheel_files import wheel_files
    from bakery.engine.paths import engine_paths
    from bakery.release.verify import verify as check

    files = wheel_files(wheels)
    selected = [plan.filter_by_pattern(tuple(only or ())) for _, plan in plans(recipe, set_)]
    number = check(selected, files, engine_paths(os.environ).cache / "audited")
    echo(f"{number} wheels: complete and as planned")
