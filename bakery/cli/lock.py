"""``wheel-bakery lock``: write the lock file of a recipe, or check it."""

from __future__ import annotations

from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import echo, progress_display, say
from bakery.core.errors import DriftError


def lock(
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; print a diff and fail if the lock file would change.")
    ] = False,
    upgrade: Annotated[
        list[str] | None,
        typer.Option(
            "--upgrade",
            help="Take the newest version of this package or base image; keep all others. May be repeated.",
            metavar="NAME",
        ),
    ] = None,
    no_cache: options.NoCache = False,
    builder: options.Builder = None,
    progress: options.Progress = "auto",
    ca_bundle: options.CaBundle = None,
    allow: options.Allow = None,
    engine_up: options.EngineUp = False,
) -> None:
    """Write bakery.lock: digests of base images, hashes of all packages, versions of the base's system packages.

    Entries that still fit are kept. Nothing is compiled.

    [dim]wheel-bakery lock --upgrade setuptools && wheel-bakery wheel --locked[/dim]
    """
    from bakery.build.options import Options
    from bakery.build.pipeline import lock_plan
    from bakery.cli.engine import open_engine
    from bakery.cli.recipes import plans
    from bakery.core.files import compare, write

    loaded = plans(recipe, set_, bake=True)
    engine = open_engine(ca_bundle, engine_up=engine_up)
    chosen = Options(groups=(), only=tuple(only or ()), no_cache=no_cache, builder=builder, allow=tuple(allow or ()))
    drifts: list[str] = []
    for root, plan in loaded:
        result = lock_plan(root, plan, chosen, engine, progress_display(progress), tuple(upgrade or ()))
        for line in result.changes:
            say(f"{plan.recipe}: {line}")
        if check:
            try:
                compare(root, {plan.lock: result.text})
            except DriftError as drift:
                drifts += drift.details
        else:
            is_changed = write(root, {plan.lock: result.text})
            echo(f"{'wrote' if is_changed else 'unchanged:'} {plan.lock}")
    if drifts:
        raise DriftError("a lock file is out of date", hint="run `wheel-bakery lock`", details=drifts)
    if check:
        echo("all lock files are up to date")
