"""``wheel-bakery wheel``, ``test``, ``full``, ``dev`` and ``bake``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import echo_json, err, say
from bakery.core.durations import seconds_of
from bakery.core.errors import UsageError
from bakery.core.file_locks import WAITING
from bakery.core.target_kinds import GROUPS

if TYPE_CHECKING:
    from bakery.plan.model import Plan
    from bakery.runs.run_options import Options

BACKENDS = ("auto", "bake", "cibuildwheel")


@dataclass(frozen=True, slots=True)
class BakeArguments:
    """The arguments and options of all commands that bake."""

    targets: Annotated[
        list[str] | None, typer.Argument(help=f"One or more of {', '.join(GROUPS)}.", metavar="TARGET…")
    ] = None
    recipe: parameters.Recipes = None
    set_: parameters.Sets = None
    only: parameters.Only = None
    skip: parameters.Skip = None
    output: parameters.Output = None
    no_cache: parameters.NoCache = False
    pull: Annotated[bool, typer.Option("--pull", help="Ask the registry for newer base images.")] = False
    builder: parameters.Builder = None
    print_: Annotated[
        bool, typer.Option("--print", help="Print the targets as JSON, as `docker buildx bake --print` does, and exit.")
    ] = False
    keep_going: Annotated[
        bool | None,
        typer.Option(
            "--keep-going/--fail-fast",
            help="After a failure, stop only the cells that depend on it, or stop all. Default: keep going if there are "
            "several cells.",
            show_default=False,
        ),
    ] = None
    max_parallel: Annotated[
        int | None,
        typer.Option(
            "--max-parallel",
            help="Maximum number of cells to bake in parallel. Default: the engine's cores, and two more if their "
            "compilers share slots, or fewer if memory is short (see builder.job-memory).",
            min=1,
            metavar="N",
            envvar="BAKERY_MAX_PARALLEL",
        ),
    ] = None
    retries: Annotated[
        int,
        typer.Option(
            "--retries", help="Retries of a cell after a failure of the network or the engine.", min=0, metavar="N"
        ),
    ] = 2
    cell_timeout: Annotated[
        str | None, typer.Option("--cell-timeout", help="Time limit for one attempt of a cell: 90m.", metavar="TIME")
    ] = None
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="Time limit for the whole command: 8h, 1h30m.", metavar="TIME")
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the last run: skip cells that are finished and unchanged, whatever their image tags and "
            "branches name now.",
        ),
    ] = False
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Bake cells that are up to date, too.")] = False
    failed: Annotated[bool, typer.Option("--failed", help="Bake only the cells that failed in the last run.")] = False
    progress: parameters.Progress = "auto"
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print all that compilers and tests print: --progress verbose.")
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the wheels, warnings and errors only: --progress quiet.")
    ] = False
    json_: Annotated[
        bool, typer.Option("--json", help="Print the report of the run as JSON, in place of its table and the wheels.")
    ] = False
    ca_bundle: parameters.CaBundle = None
    allow: parameters.Allow = None
    locked: Annotated[
        bool,
        typer.Option(
            "--locked", help="Fail if anything differs from the recipe's lock file (`wheel-bakery lock`), and list it."
        ),
    ] = False
    compiler_cache: Annotated[
        str | None,
        typer.Option(
            "--compiler-cache",
            help="Load compiler caches from this place before the run and save them to it after the run: a folder that "
            "a CI service keeps, or a store (redis://, s3://, https://).",
            metavar="PLACE",
            envvar="BAKERY_COMPILER_CACHE",
        ),
    ] = None
    compiler_cache_read_only: Annotated[
        bool,
        typer.Option(
            "--compiler-cache-read-only",
            help="Load compiler caches, and save nothing.",
            envvar="BAKERY_COMPILER_CACHE_READ_ONLY",
        ),
    ] = False
    engine_up: parameters.EngineUp = False
    shard: parameters.Shard = None
    since: parameters.Since = None
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            help="bake, cibuildwheel, or auto: bake on Linux; cibuildwheel on macOS and Windows, for cells of that "
            "system.",
            envvar="BAKERY_BACKEND",
            metavar="NAME",
        ),
    ] = "auto"

    def options(self, groups: tuple[str, ...]) -> Options:
        """Return the options of the run. Raises UsageError if a time limit is malformed."""
        from bakery.core.store_address import parse_place
        from bakery.runs.run_options import CellSelection, Options

        limit = seconds_of(self.timeout, "--timeout") if self.timeout else None
        chosen = {
            CellSelection.ALL: self.rebuild,
            CellSelection.UNFINISHED: self.resume,
            CellSelection.FAILED: self.failed,
        }
        selection = next((name for name, is_set in chosen.items() if is_set), CellSelection.CHANGED)
        return Options(
            groups=groups,
            only=parameters.globs(self.only, self.skip),
            output=self.output,
            no_cache=self.no_cache,
            pull=self.pull,
            builder=self.builder,
            allow=tuple(self.allow or ()),
            locked=self.locked,
            keep_going=self.keep_going,
            parallel=self.max_parallel or 0,
            retries=self.retries,
            cell_timeout_s=seconds_of(self.cell_timeout, "--cell-timeout") if self.cell_timeout else None,
            deadline=None if limit is None else time.monotonic() + limit,
            compiler_cache=parse_place(self.compiler_cache) if self.compiler_cache else None,
            compiler_cache_read_only=self.compiler_cache_read_only,
            selection=selection,
        )


def bake(arguments: BakeArguments, *, first: tuple[str, ...]) -> None:
    """Bake the targets ``first`` and those that the arguments name; without any, the default group."""
    from bakery.cli.recipes import checked, narrow, resolved
    from bakery.cli.runs import Early, early, print_configurations, print_json, require_runs, run, this_system

    groups = (*first, *(arguments.targets or ())) or ("default",)
    if unknown := [name for name in groups if name not in GROUPS]:
        raise UsageError(f"unknown target: {', '.join(unknown)}", hint=f"targets are {', '.join(GROUPS)}")
    by_cibuildwheel = uses_cibuildwheel(arguments.backend)
    selections = {"--rebuild": arguments.rebuild, "--resume": arguments.resume, "--failed": arguments.failed}
    if len(given := [name for name, is_set in selections.items() if is_set]) > 1:
        raise UsageError(
            f"{' and '.join(given)} exclude each other",
            hint="--rebuild bakes all cells, --resume those that are not finished, including failed ones",
        )
    if arguments.verbose and arguments.quiet:
        raise UsageError("--verbose and --quiet exclude each other", hint="use one of them")
    progress = "verbose" if arguments.verbose else "quiet" if arguments.quiet else arguments.progress
    if arguments.json_ and progress == "rawjson":
        raise UsageError("--json and --progress rawjson both print to standard output", hint="use one of them")
    chosen = arguments.options(groups)
    WAITING.deadline = chosen.deadline
    system = this_system() if by_cibuildwheel else "linux"
    is_build = not (arguments.print_ or by_cibuildwheel)
    loaded = resolved(arguments.recipe, arguments.set_, Path.cwd(), dated=True)
    if not is_build:
        checked(loaded)
    selected, skipped = narrow(
        loaded, arguments.recipe, arguments.set_, chosen.only, arguments.shard, arguments.since, system, chosen
    )
    if arguments.shard or arguments.since:
        from bakery.cli.tables.plan import print_skipped

        print_skipped(err, skipped)
        if not selected:
            say("nothing to bake")
            if arguments.json_:
                print_json([])
            return
    if arguments.print_:
        show = print_configurations if by_cibuildwheel else partial(_print_bake, groups=groups, only=chosen.only)
        show([plan for _, plan in selected])
        return
    if arguments.failed:
        require_runs(selected)
    known = early(selected, chosen) if is_build else Early()
    if is_build:
        # The rules judged the others when they were baked.
        others = [item for item in loaded if item[1].recipe not in known.reports]
        checked(others, bake=True, builder=arguments.builder, options=chosen)
    run(
        selected,
        chosen,
        progress,
        arguments.ca_bundle,
        known=known,
        system=system if by_cibuildwheel else "",
        engine_up=arguments.engine_up,
        as_json=arguments.json_,
    )


def uses_cibuildwheel(backend: str) -> bool:
    """Return whether cibuildwheel builds the cells. Raises UsageError if there is no such backend."""
    if backend not in BACKENDS:
        raise UsageError(f"unknown backend: {backend}", hint=f"expected one of {', '.join(BACKENDS)}")
    return backend == "cibuildwheel" or (backend == "auto" and sys.platform in ("darwin", "win32"))


def _print_bake(plans: list[Plan], groups: tuple[str, ...], only: tuple[str, ...]) -> None:
    """Print what ``docker buildx bake --print`` prints for the same targets; with several recipes, by recipe."""
    from bakery.emit.bakefile import bake_groups, bake_json

    documents = {}
    for plan in plans:
        targets = plan.select(groups, only)
        # Selected cells are requested by the names of their targets; no group has exactly these.
        members = bake_groups(plan, groups) if not only else {"default": sorted(target.name for target in targets)}
        documents[plan.recipe] = {
            "group": {name: {"targets": names} for name, names in members.items()},
            "target": bake_json(plan, targets),
        }
    echo_json(documents if len(documents) > 1 else next(iter(documents.values())))


_HELP = {
    "wheel": """Build, repair and audit the wheels, and write them to the output folder.

    Example: wheel-bakery wheel --set CUDA_VERSION=12.8.0 --only 'cp312*'
    """,
    "test": """Test each wheel in a clean image: load its shared objects, import its modules, run the test command.

    Example: wheel-bakery test -r ujson
    """,
    "full": """Build and test: a wheel is written to the output folder only if its test passes, too.

    Example: wheel-bakery full --no-cache
    """,
    "dev": """Make an image with the build tools and the project, for a shell.

    Example: wheel-bakery dev -r ujson && docker run -it --rm ujson:dev-cp311
    """,
    "bake": """Bake several kinds of targets in one run. Default: the default group.

    Example: wheel-bakery bake wheel dev -r ujson
    """,
}


def _commands() -> dict[str, Callable[..., None]]:
    """Return the name of each command → its function; the docstring is its help."""
    functions = {}
    for name, text in _HELP.items():
        function = parameters.with_arguments(BakeArguments, partial(bake, first=() if name == "bake" else (name,)))
        function.__doc__ = text
        functions[name] = function
    return functions


COMMANDS = _commands()
