"""``wheel-bakery lock``: writes what a recipe's wheels are made of, or checks it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.bake import Builder, EngineUp, NoCache, Progress
from bakery.cli.console import err, out, say
from bakery.core.errors import DriftError

Check = Annotated[
    bool, typer.Option("--check", help="Write nothing; print a diff and fail where the lock would change.")
]
Upgrade = Annotated[
    list[str] | None,
    typer.Option(
        "--upgrade",
        help="Take the newest of a distribution or a base image; all else stays. May be given several times.",
        metavar="NAME",
    ),
]


def lock(
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
    check: Check = False,
    upgrade: Upgrade = None,
    no_cache: NoCache = False,
    builder: Builder = None,
    progress: Progress = "auto",
    ca_bundle: options.CaBundle = None,
    allow: options.Allow = None,
    engine_up: EngineUp = False,
) -> None:
    """Write bakery.lock: digests of base images, hashes of every package, versions of the base's own packages.

    What is locked already and still fits is kept. Nothing is compiled.

    [dim]wheel-bakery lock --upgrade setuptools && wheel-bakery wheel --locked[/dim]
    """
    from bakery.build.display.display import choose
    from bakery.build.options import Options
    from bakery.build.pipeline import lock_plan
    from bakery.cli.engine import find_or_start
    from bakery.cli.recipes import plans
    from bakery.cli.trust import find_ca_bundle
    from bakery.core.files import compare, write
    from bakery.engine.discover import find
    from bakery.engine.session import EngineSession

    found = plans(recipe, set_, bake=True)
    address = find_or_start() if engine_up else find(os.environ)
    engine = EngineSession({**os.environ, **address.environment}, find_ca_bundle(ca_bundle, os.environ), say)
    chosen = Options(groups=(), only=tuple(only or ()), no_cache=no_cache, builder=builder, allow=tuple(allow or ()))
    drifts: list[str] = []
    for root, plan in found:
        listener = choose(progress, out if progress == "rawjson" else err, os.environ)
        made = lock_plan(root, plan, chosen, engine, listener, tuple(upgrade or ()))
        for line in made.changes:
            say(f"{plan.recipe}: {line}")
        if check:
            try:
                compare(root, {plan.lock: made.text})
            except DriftError as drift:
                drifts += drift.details
            continue
        written = write(root, {plan.lock: made.text})
        out.print(f"{'wrote' if written else 'unchanged:'} {Path(plan.lock)}", markup=False)
    if drifts:
        raise DriftError("a lock is not up to date", hint="run `wheel-bakery lock`", details=drifts)
    if check:
        out.print("every lock is up to date", markup=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(lock)
