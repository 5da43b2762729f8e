"""``wheel-bakery reproduce``: builds a wheel again and says whether, and where, it differs."""

from __future__ import annotations

import json as _json
import os
from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import err, leave, out, say
from bakery.core.errors import DifferentError


def reproduce(
    wheel: Annotated[Path, typer.Argument(help="A wheel that bakery published.", exists=True, dir_okay=False)],
    recipe: Annotated[
        str | None, typer.Option("--recipe", "-r", help="In place of the recipe that the provenance names.")
    ] = None,
    provenance: Annotated[
        Path | None, typer.Option("--provenance", help="In place of the one beside the wheel.", metavar="FILE")
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
        typer.Option("--set", "-s", help="A setting beside those of the provenance.", metavar="NAME=VALUE"),
    ] = None,
    ca_bundle: options.CaBundle = None,
    json: options.AsJson = False,
) -> None:
    """Build a wheel again from its provenance, without any cache, and compare the two byte for byte.

    [dim]wheel-bakery reproduce dist/my_kernels-1.0-cp312-cp312-manylinux_2_34_x86_64.whl[/dim]
    """
    from bakery.cli.tables.difference import render
    from bakery.release.reproduce import RebuildOptions
    from bakery.release.reproduce import against as compare
    from bakery.release.reproduce import reproduce as build

    if against:
        found = compare(wheel, against)
    else:
        from bakery.build.display.display import choose
        from bakery.cli.trust import find_ca_bundle
        from bakery.engine.discover import find
        from bakery.engine.session import Oven

        oven = Oven({**os.environ, **find(os.environ).environment}, find_ca_bundle(ca_bundle, os.environ), say)
        listener = choose(os.environ.get("BAKERY_PROGRESS", "auto"), err, os.environ)
        found = build(wheel, Path.cwd(), RebuildOptions(recipe, provenance, here, tuple(set_ or ())), oven, listener)
    if json:
        out.print(_json.dumps(found.to_json(), indent=2), markup=False, soft_wrap=True)
    else:
        out.print(render(wheel.name, found.differences, found.materials, found.taken, found.not_compared))
    if not found.same:
        leave(DifferentError.exit_code)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reproduce)
