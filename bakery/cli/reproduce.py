"""``wheel-bakery reproduce``: build a wheel again and show where it differs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import echo_json, leave, out, progress_display
from bakery.core.errors import DifferentError


def reproduce(
    wheel: Annotated[Path, typer.Argument(help="A wheel that bakery published.", exists=True, dir_okay=False)],
    recipe: Annotated[
        str | None, typer.Option("--recipe", "-r", help="Use this recipe, not the one in the provenance.")
    ] = None,
    provenance: Annotated[
        Path | None,
        typer.Option("--provenance", help="Use this provenance, not the one next to the wheel.", metavar="FILE"),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Build nothing: compare with this wheel.", exists=True, dir_okay=False),
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="Build the project as it is now, whatever the wheel was built from.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="A setting in addition to those of the provenance.", metavar="NAME=VALUE"),
    ] = None,
    ca_bundle: options.CaBundle = None,
    json: options.AsJson = False,
) -> None:
    """Build a wheel again from its provenance, without caches, and compare the two wheels byte for byte.

    [dim]wheel-bakery reproduce dist/my_kernels-1.0-cp312-cp312-manylinux_2_34_x86_64.whl[/dim]
    """
    from bakery.cli.engine import open_engine
    from bakery.cli.tables.difference import render
    from bakery.release import reproduce as release

    if against:
        result = release.against(wheel, against)
    else:
        choices = release.RebuildOptions(recipe, provenance, here, tuple(set_ or ()))
        display = progress_display(os.environ.get("BAKERY_PROGRESS", "auto"))
        result = release.reproduce(wheel, Path.cwd(), choices, open_engine(ca_bundle), display)
    if json:
        echo_json(result.to_json())
    else:
        out.print(render(wheel.name, result.differences, result.materials, result.taken, result.not_compared))
    if not result.same:
        leave(DifferentError.exit_code)
