"""``wheel-bakery wheel``, ``test``, ``dev``, ``full`` and ``bake``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import options
from bakery.cli.console import err, out, say, show
from bakery.core.durations import seconds_of
from bakery.core.errors import BakeryError, EngineError, InterruptedBake, UsageError
from bakery.core.names import GROUPS

if TYPE_CHECKING:
    from bakery.build.options import Options
    from bakery.build.report import RunReport
    from bakery.plan.model import Plan

NoCache = Annotated[bool, typer.Option("--no-cache", help="Run every step, whatever is cached.")]
Pull = Annotated[bool, typer.Option("--pull", help="Ask the registry for newer base images.")]
Builder = Annotated[
    str | None,
    typer.Option(
        "--builder",
        help="A builder of many nodes (\\[builders.NAME]), over which cells are spread; or one of buildx's own.",
        envvar="BAKERY_BUILDER",
        metavar="NAME",
    ),
]
Print = Annotated[bool, typer.Option("--print", help="Print what would be baked as bake's JSON, and bake nothing.")]
Progress = Annotated[
    str,
    typer.Option("--progress", help="auto, tty, plain, rawjson or quiet.", envvar="BAKERY_PROGRESS", metavar="MODE"),
]
EngineUp = Annotated[
    bool,
    typer.Option(
        "--engine-up", help="Where no engine runs, install and start a private one (`wheel-bakery engine up`)."
    ),
]
KeepGoing = Annotated[
    bool | None,
    typer.Option(
        "--keep-going/--fail-fast",
        help="A failed cell stops only what depends on it, or everything. Without either: everything where one cell "
        "is baked, only what depends on it where there are more.",
        show_default=False,
    ),
]
Parallel = Annotated[
    int | None,
    typer.Option(
        "--max-parallel",
        help="Cells baked at once. Without it: the engine's cores; memory limits them, too, where it is known what a "
        "cell needs (builder.job-memory, or the last run).",
        min=1,
        metavar="N",
        envvar="BAKERY_MAX_PARALLEL",
    ),
]
Retries = Annotated[
    int,
    typer.Option(
        "--retries",
        help="Further tries of a cell that the network, a registry or the engine failed.",
        min=0,
        metavar="N",
    ),
]
CellTimeout = Annotated[
    str | None, typer.Option("--cell-timeout", help="What one try of a cell may take: 90m.", metavar="TIME")
]
Timeout = Annotated[str | None, typer.Option("--timeout", help="What all of it may take: 8h, 1h30m.", metavar="TIME")]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on from the last run: what is finished and has not changed is not built again."),
]
Failed = Annotated[bool, typer.Option("--failed", help="Bake only the cells that failed in the last run.")]
BACKENDS = ("auto", "bake", "cibuildwheel")
Backend = Annotated[
    str,
    typer.Option(
        "--backend",
        help="bake, cibuildwheel, or auto: bake on Linux, cibuildwheel on macOS and Windows, for their own cells.",
        envvar="BAKERY_BACKEND",
        metavar="NAME",
    ),
]
Locked = Annotated[
    bool,
    typer.Option(
        "--locked",
        help="Refuse everything that the recipe's lock does not hold, and say what differs (`wheel-bakery lock`).",
    ),
]
CompilerCache = Annotated[
    Path | None,
    typer.Option(
        "--compiler-cache",
        help="A folder that compiler caches come from before the first cell, and go to after the last: a CI keeps it "
        "between machines.",
        metavar="DIR",
        envvar="BAKERY_COMPILER_CACHE",
    ),
]
Targets = Annotated[list[str] | None, typer.Argument(help=f"One or more of {', '.join(GROUPS)}.", metavar="TARGET…")]


_HELP = {
    "wheel": """Build, repair and audit the wheels, and put them into the output folder.

    [dim]wheel-bakery wheel --set CUDA_VERSION=12.8.0 --only 'cp312*'[/dim]
    """,
    "test": """Try each wheel alone in a clean base: every shared object is loaded, then imports, then the command.

    [dim]wheel-bakery test -r ujson[/dim]
    """,
    "full": """Build and test: a wheel reaches the output folder only if its test passed, too.

    [dim]wheel-bakery full --no-cache[/dim]
    """,
    "dev": """Make an image with the build tools and the project, for a shell.

    [dim]wheel-bakery dev -r ujson && docker run -it --rm ujson:dev-cp311[/dim]
    """,
    "bake": """Bake several targets at once, in parallel; without a name, the default group.

    [dim]wheel-bakery bake wheel dev -r ujson[/dim]
    """,
}


def command(first: tuple[str, ...]) -> Callable[..., None]:
    """Return the command that bakes the targets ``first`` and those that its arguments name."""

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
        keep_going: KeepGoing = None,
        max_parallel: Parallel = None,
        retries: Retries = 2,
        cell_timeout: CellTimeout = None,
        timeout: Timeout = None,
        resume: Resume = False,
        failed: Failed = False,
        progress: Progress = "auto",
        ca_bundle: options.CaBundle = None,
        allow: options.Allow = None,
        locked: Locked = False,
        compiler_cache: CompilerCache = None,
        engine_up: EngineUp = False,
        shard: options.Shard = None,
        since: options.Since = None,
        backend: Backend = "auto",
    ) -> None:
        from bakery.cli.narrow import narrow
        from bakery.cli.recipes import plans
        from bakery.cli.wheelhouse import print_configurations, this_system, work

        groups = (*first, *(targets or ())) or ("default",)
        _check_groups(groups)
        elsewhere = _is_elsewhere(backend)
        if resume and failed:
            raise UsageError(
                "--resume and --failed name different cells",
                hint="--resume bakes all that are not finished, also failed ones",
            )
        limit = seconds_of(timeout, "--timeout") if timeout else None
        cell_limit = seconds_of(cell_timeout, "--cell-timeout") if cell_timeout else None
        every = plans(recipe, set_, bake=not (print_ or elsewhere), builder=builder)
        system = this_system() if elsewhere else "linux"
        found, left = narrow(every, recipe, set_, tuple(only or ()), shard, since, system)
        if shard or since:
            from bakery.cli.tables.plan import print_left

            print_left(err, left)
            if not found:
                say("nothing to bake")
                return
        if print_:
            show = print_configurations if elsewhere else partial(_print, groups=groups, only=tuple(only or ()))
            show([plan for _, plan in found])
            return
        from bakery.build.options import Again, Options

        chosen = Options(
            groups=groups,
            only=tuple(only or ()),
            output=output,
            no_cache=no_cache,
            pull=pull,
            builder=builder,
            allow=tuple(allow or ()),
            locked=locked,
            keep_going=keep_going,
            parallel=max_parallel or 0,
            retries=retries,
            cell_timeout_s=cell_limit,
            deadline=None if limit is None else time.monotonic() + limit,
            compiler_cache=compiler_cache,
            again=Again.FAILED if failed else Again.UNFINISHED if resume else Again.ALL,
        )
        if elsewhere:
            work(found, chosen, progress, ca_bundle, system)
        else:
            run(found, chosen, progress, ca_bundle, engine_up=engine_up)

    return bake


def run(
    plans: list[tuple[Path, Plan]], chosen: Options, progress: str, ca_bundle: Path | None, *, engine_up: bool
) -> None:
    """Bake every plan, one after the other.

    Raises:
        BakeryError: any of its kinds, once all is done that can be.
    """
    from concurrent.futures import ThreadPoolExecutor

    from bakery.build.display.display import choose
    from bakery.build.exit_status import refused
    from bakery.build.pipeline import bake_plan
    from bakery.cli.ending import judge, tell
    from bakery.cli.engine import find_or_start
    from bakery.cli.trust import find_ca_bundle
    from bakery.engine.builder_config import nodes_of
    from bakery.engine.discover import find
    from bakery.engine.nodes import gather
    from bakery.engine.session import EngineSession, warm_up

    with ThreadPoolExecutor(1) as pool:
        pool.submit(warm_up)
        address = find_or_start() if engine_up else find(os.environ)
    _say_left_out(plans, chosen)
    environment = {**os.environ, **address.environment}
    nodes = nodes_of(chosen.builder, Path.cwd()) if chosen.builder else ()
    farm = gather(chosen.builder, nodes, environment, say) if chosen.builder and nodes else None
    chosen = replace(chosen, builder=None) if farm else chosen
    engine = EngineSession(environment, find_ca_bundle(ca_bundle, os.environ), say, farm)
    if chosen.keep_going is None:
        cells = {
            (plan.recipe, target.cell.id) for _, plan in plans for target in plan.select(chosen.groups, chosen.only)
        }
        chosen = replace(chosen, keep_going=len(cells) > 1)
    reports: list[RunReport] = []
    for root, plan in plans:
        listener = choose(progress, out if progress == "rawjson" else err, os.environ)
        try:
            report = bake_plan(root, plan, chosen, engine, listener)
        except (EngineError, InterruptedBake):
            raise
        except BakeryError as error:
            if len(plans) == 1 or not chosen.keep_going:
                raise
            show(error)
            report = refused(root, plan, chosen, error)
        reports.append(report)
        tell(report, progress)
        if report.stopped or (report.failures and not chosen.keep_going):
            break
    judge(reports)


def _say_left_out(plans: list[tuple[Path, Plan]], chosen: Options) -> None:
    for _, plan in plans:
        if plan.elsewhere and not chosen.only:
            systems = " and ".join(dict.fromkeys(cell.platform.partition("/")[0] for cell in plan.elsewhere))
            say(f"{plan.recipe}: {len(plan.elsewhere)} cells of {systems} are left out: run the same command there")


def _is_elsewhere(backend: str) -> bool:
    """Whether cibuildwheel does it.

    Raises:
        UsageError: there is no such back end.
    """
    if backend not in BACKENDS:
        raise UsageError(f"no such back end: {backend}", hint=f"expected one of {', '.join(BACKENDS)}")
    return backend == "cibuildwheel" or (backend == "auto" and sys.platform in ("darwin", "win32"))


def _check_groups(groups: tuple[str, ...]) -> None:
    wrong = [name for name in groups if name not in GROUPS]
    if wrong:
        raise UsageError(f"no such target: {', '.join(wrong)}", hint=f"targets are {', '.join(GROUPS)}")


def _print(plans: list[Plan], groups: tuple[str, ...], only: tuple[str, ...]) -> None:
    """Print what ``docker buildx bake --print`` says of the same targets; by recipe, where there are several."""
    import json

    from bakery.emit.bakefile import bake_groups, bake_json

    documents = {}
    for plan in plans:
        targets = plan.select(groups, only)
        # Chosen cells are asked for by the names of their targets, and no group has just these.
        asked = bake_groups(plan, groups) if not only else {"default": sorted(target.name for target in targets)}
        documents[plan.recipe] = {
            "group": {name: {"targets": members} for name, members in asked.items()},
            "target": bake_json(plan, targets),
        }
    text = json.dumps(documents if len(documents) > 1 else next(iter(documents.values())), indent=2)
    out.print(text, markup=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for name, text in _HELP.items():
        app.command(name, help=text)(command(() if name == "bake" else (name,)))
