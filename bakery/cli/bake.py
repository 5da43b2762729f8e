"""``bakery wheel``, ``test``, ``dev``, ``full`` and ``bake``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import options
from bakery.cli.console import err, out, say
from bakery.errors import UsageError
from bakery.names import GROUPS

NoCache = Annotated[bool, typer.Option("--no-cache", help="Run every step, whatever is cached.")]
Pull = Annotated[bool, typer.Option("--pull", help="Ask the registry for newer base images.")]
Builder = Annotated[str | None, typer.Option("--builder", help="The builder of buildx.", envvar="BAKERY_BUILDER")]
Print = Annotated[bool, typer.Option("--print", help="Print what would be baked as bake's JSON, and bake nothing.")]
Progress = Annotated[
    str,
    typer.Option("--progress", help="auto, tty, plain, rawjson or quiet.", envvar="BAKERY_PROGRESS", metavar="MODE"),
]
Targets = Annotated[list[str] | None, typer.Argument(help=f"One or more of {', '.join(GROUPS)}.", metavar="TARGET…")]


def bake(
    targets: Targets = None,
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
    output: options.Output = None,
    no_cache: NoCache = False,
    pull: Pull = False,
    builder: Builder = None,
    print_: Print = False,
    progress: Progress = "auto",
    ca_bundle: options.CaBundle = None,
) -> None:
    """Bake several targets at once, in parallel; without a name, the default group.

    [dim]bakery bake wheel test -r ujson[/dim]
    """
    run(targets or ["default"], recipe, set_, only, output, no_cache, pull, builder, print_, progress, ca_bundle)


def wheel(
    more: Targets = None,
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
    output: options.Output = None,
    no_cache: NoCache = False,
    pull: Pull = False,
    builder: Builder = None,
    print_: Print = False,
    progress: Progress = "auto",
    ca_bundle: options.CaBundle = None,
) -> None:
    """Build, repair and audit the wheels, and put them into the output folder.

    [dim]bakery wheel --set CUDA_VERSION=12.8.0 --only 'cp312*'[/dim]
    """
    run(["wheel", *(more or [])], recipe, set_, only, output, no_cache, pull, builder, print_, progress, ca_bundle)


def test(
    more: Targets = None,
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
    no_cache: NoCache = False,
    pull: Pull = False,
    builder: Builder = None,
    print_: Print = False,
    progress: Progress = "auto",
    ca_bundle: options.CaBundle = None,
) -> None:
    """Try each wheel alone in a clean base: every shared object is loaded, then imports, then the command.

    [dim]bakery test -r ujson[/dim]
    """
    run(["test", *(more or [])], recipe, set_, only, None, no_cache, pull, builder, print_, progress, ca_bundle)


def dev(
    more: Targets = None,
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
    no_cache: NoCache = False,
    pull: Pull = False,
    builder: Builder = None,
    print_: Print = False,
    progress: Progress = "auto",
    ca_bundle: options.CaBundle = None,
) -> None:
    """Make an image with the build tools and the project, for a shell.

    [dim]bakery dev -r ujson && docker run -it --rm ujson:dev-cp311[/dim]
    """
    run(["dev", *(more or [])], recipe, set_, only, None, no_cache, pull, builder, print_, progress, ca_bundle)


def full(
    more: Targets = None,
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    only: options.Only = None,
    output: options.Output = None,
    no_cache: NoCache = False,
    pull: Pull = False,
    builder: Builder = None,
    print_: Print = False,
    progress: Progress = "auto",
    ca_bundle: options.CaBundle = None,
) -> None:
    """Build and test: a wheel reaches the output folder only if its test passed, too.

    [dim]bakery full --no-cache[/dim]
    """
    run(["full", *(more or [])], recipe, set_, only, output, no_cache, pull, builder, print_, progress, ca_bundle)


def run(
    groups: list[str],
    recipe: list[str] | None,
    sets: list[str] | None,
    only: list[str] | None,
    output: Path | None,
    no_cache: bool,
    pull: bool,
    builder: str | None,
    print_: bool,
    progress: str,
    ca_bundle: Path | None,
) -> None:
    """Bake every recipe that the command line names, one after the other.

    Raises:
        BakeryError: any of its kinds; the first recipe that fails ends the run.
    """
    from bakery.cli.recipes import plans

    _check_groups(groups)
    found = plans(recipe, sets)
    if print_:
        _print([plan for _, plan in found], tuple(groups), tuple(only or ()))
        return
    from bakery.cli.trust import find_ca_bundle
    from bakery.drive.display import choose
    from bakery.drive.find import find
    from bakery.pipeline import BakeStopped, Options, bake_plan
    from bakery.report.run import render

    environment = {**os.environ, **find(os.environ).environment}
    chosen = Options(
        groups=tuple(groups),
        environment=environment,
        only=tuple(only or ()),
        output=output,
        no_cache=no_cache,
        pull=pull,
        builder=builder,
        ca_bundle=find_ca_bundle(ca_bundle, os.environ),
    )
    for root, plan in found:
        listener = choose(progress, out if progress == "rawjson" else err, os.environ)
        try:
            report = bake_plan(root, plan, chosen, listener, say)
        except BakeStopped as stopped:
            err.print(render(stopped.report))
            raise
        if progress != "quiet":
            err.print(render(report))
        for target in report.targets:
            if target.wheel and progress != "rawjson":
                out.print(_shown(target.wheel), markup=False)


def _check_groups(groups: list[str]) -> None:
    wrong = [name for name in groups if name not in GROUPS]
    if wrong:
        raise UsageError(f"no such target: {', '.join(wrong)}", hint=f"targets are {', '.join(GROUPS)}")


def _print(plans: list[object], groups: tuple[str, ...], only: tuple[str, ...]) -> None:
    import json

    from bakery.emit.bakefile import bake_json
    from bakery.plan import Plan

    documents = {
        plan.recipe: {"target": bake_json(plan, plan.select(groups, only))} for plan in plans if isinstance(plan, Plan)
    }
    text = json.dumps(documents if len(documents) > 1 else next(iter(documents.values())), indent=2)
    out.print(text, markup=False, soft_wrap=True)


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (wheel, test, full, dev, bake):
        app.command()(command)
