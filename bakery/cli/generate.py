"""``bakery generate``: writes the files, or checks them for drift. Pure Python, no engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import out
from bakery.cli.recipes import plans


def generate(
    recipe: options.Recipes = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; print a unified diff and fail when a file differs.")
    ] = False,
    to: Annotated[Path | None, typer.Option("--to", help="Write below this folder.", metavar="DIR")] = None,
) -> None:
    """Write bake/RECIPE.hcl and dockerfiles/RECIPE.Dockerfile, which work without bakery; with [ci] a workflow, too.

    [dim]bakery generate && docker buildx bake -f bake/ujson.hcl wheel[/dim]
    """
    from bakery.emit.files import generate as emit
    from bakery.files import compare, write

    for root, item in plans(recipe, None, dated=False):
        folder = to or root
        texts = emit(item)
        if check:
            compare(folder, texts)
            out.print(f"{item.recipe}: {len(texts)} files are up to date", markup=False)
        else:
            for path in write(folder, texts):
                out.print(f"wrote {path}", markup=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(generate)
