"""``wheel-bakery verify``: a folder of wheels against the plan. No engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import out


def verify(
    wheels: Annotated[list[Path], typer.Argument(help="Wheels, and folders that hold some.", metavar="WHEEL|DIR…")],
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
) -> None:
    """Compare all wheels of a release with the plan: each planned one is there, keeps its promise, and no other is.

    [dim]wheel-bakery verify dist/[/dim]
    """
    import os

    from bakery.cli.recipes import plans
    from bakery.core.errors import UsageError
    from bakery.engine.paths import places
    from bakery.release.verify import verify as check

    missing = [str(path) for path in wheels if not path.exists()]
    if missing:
        raise UsageError(f"no such file or folder: {', '.join(missing)}", hint="name wheels, or the folder of `wheel`")
    files = [file for path in wheels for file in (sorted(path.glob("*.whl")) if path.is_dir() else [path])]
    found = [plan.filter_by_pattern(tuple(only or ())) for _, plan in plans(recipe, set_)]
    number = check(found, files, places(os.environ).cache / "audited")
    out.print(f"{number} wheels: all that is planned, and what they promise", markup=False)
