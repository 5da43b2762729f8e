"""``wheel-bakery generate`` and ``wheel-bakery lock``: write files, or check them for drift."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import echo, progress_display, say
from bakery.cli.recipes import plans
from bakery.core.errors import DriftError
from bakery.core.files import compare, write

if TYPE_CHECKING:
    from bakery.plan.delivery import Repository


def generate(
    recipe: parameters.Recipes = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; print a diff and fail if a file differs.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            help="Write to this folder. Default: the folder of the recipe. A workflow goes to the top of the repository.",
            metavar="DIR",
            callback=parameters.written,
        ),
    ] = None,
) -> None:
    """Write bake/RECIPE.hcl and dockerfiles/RECIPE.Dockerfile, which work without bakery, and a workflow for [ci].

    GitHub reads workflows at the top of a repository: that of a project below is written there, with its folder.

    Example: wheel-bakery generate && docker buildx bake -f bake/ujson.hcl wheel
    """
    from bakery.cli.plugins import plugins
    from bakery.core.text import count
    from bakery.emit.files import generate as emit
    from bakery.recipe.files import find_table

    top, repository = _repository_of(Path.cwd(), to)
    added = [
        (top, item.title, texts)
        for item in (() if recipe else plugins())
        if (texts := item.files(Path.cwd(), repository))
    ]
    outputs: list[tuple[Path, str, Mapping[str, str]]] = []
    has_recipes = recipe or not added or find_table(Path.cwd(), Path.cwd())
    for root, plan in plans(recipe, None, dated=False) if has_recipes else []:
        top, repository = _repository_of(root, to)
        texts = emit(plan, repository)
        workflow = repository.named(plan.workflow) if plan.ci else ""
        outputs.append((to or root, plan.recipe, {path: text for path, text in texts.items() if path != workflow}))
        if workflow:
            outputs.append((top, f"{plan.recipe}, workflow", {workflow: texts[workflow]}))
            if not check and top != root and (unread := root / plan.workflow).exists():
                say(f"note: GitHub reads no workflow below the top of a repository: remove {_from_here(unread)}")
    for folder, name, files in [*outputs, *added]:
        if check:
            compare(folder, files)
            echo(f"{name}: {count(len(files), 'file')} {'is' if len(files) == 1 else 'are'} up to date")
        else:
            for path in write(folder, files):
                echo(f"wrote {_from_here(folder / path)}")


def _repository_of(root: Path, to: Path | None) -> tuple[Path, Repository]:
    """Return the folder whose ``.github`` gets the workflow of a project, and what the workflow must know of the repository.

    It is the top of the repository, unless ``--to`` names a folder outside.
    """
    from bakery.resolve.repository import repository_of

    top, repository = repository_of(root)
    return (top if to is None or to.resolve().is_relative_to(top) else to), repository


def _from_here(path: Path) -> str:
    return os.path.relpath(path) if path.is_absolute() else str(path)


def lock(
    recipe: parameters.Recipes = None,
    set_: parameters.Sets = None,
    only: parameters.Only = None,
    skip: parameters.Skip = None,
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
    no_cache: parameters.NoCache = False,
    builder: parameters.Builder = None,
    progress: parameters.Progress = "auto",
    ca_bundle: parameters.CaBundle = None,
    allow: parameters.Allow = None,
    engine_up: parameters.EngineUp = False,
) -> None:
    """Write bakery.lock: digests of base images, hashes of all packages, versions of the base's system packages.

    Entries that still fit are kept. Nothing is compiled.

    Example: wheel-bakery lock --upgrade setuptools && wheel-bakery wheel --locked
    """
    from bakery.cli.engine import open_engine
    from bakery.runs.pipeline import lock_plan
    from bakery.runs.run_options import Options

    loaded = plans(recipe, set_, bake=True)
    engine = open_engine(ca_bundle, engine_up=engine_up)
    chosen = Options(
        groups=(), only=parameters.globs(only, skip), no_cache=no_cache, builder=builder, allow=tuple(allow or ())
    )
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
