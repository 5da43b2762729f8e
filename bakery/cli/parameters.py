"""Options that several commands take, declared once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, TypeVar, get_type_hints

import typer

from bakery.cli import completion
from bakery.core.errors import OutputError
from bakery.core.inside import leads_out

_Arguments = TypeVar("_Arguments")


def with_arguments(model: type[_Arguments], function: Callable[[_Arguments], None]) -> Callable[..., None]:
    """Return ``function`` as a command whose parameters are the fields of the dataclass ``model``."""

    def command(**values: object) -> None:
        function(model(**values))

    hints = get_type_hints(model, include_extras=True)
    command.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(model)  # type: ignore[arg-type]
        ]
    )
    command.__annotations__ = hints
    command.__doc__ = function.__doc__
    return command


def written(path: Path | None) -> Path | None:
    """Check a path that a command writes to. Raises OutputError for a link that leads out of the working folder.

    A checkout may contain such a link. A path outside of the folder is the user's.
    """
    if path is not None and leads_out(path, Path.cwd()):
        raise OutputError(f"{path} is a link that leads out of {Path.cwd()}", hint="name the place that it leads to")
    return path


Recipes = Annotated[
    list[str] | None,
    typer.Option(
        "--recipe",
        "-r",
        help="A recipe file, a folder with one, or the name of a shipped recipe. Default: the recipes of this folder. "
        "May be repeated.",
        metavar="RECIPE",
        envvar="BAKERY_RECIPE",
        autocompletion=completion.recipes,
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        help="Set a variable of the recipe (CUDA_VERSION=12.8.0), or override a target as `docker buildx bake --set` "
        "does ('*.args.CUDA_VERSION=12.8.0', '*.platform=linux/arm64'). May be repeated.",
        metavar="NAME=VALUE",
        autocompletion=completion.variables,
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        help="Select cells by a glob, such as 'cp312-*'. May be repeated.",
        metavar="GLOB",
        envvar="BAKERY_ONLY",
        autocompletion=completion.cells,
    ),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(
        "--skip",
        help="Leave out the cells that a glob matches. May be repeated.",
        metavar="GLOB",
        envvar="BAKERY_SKIP",
        autocompletion=completion.cells,
    ),
]
PullRequest = Annotated[
    bool,
    typer.Option(
        "--pull-request",
        help="Take the cells that ci.pull-request of the recipe names for a pull request as the whole plan.",
        envvar="BAKERY_PULL_REQUEST",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="The folder for audited wheels.",
        metavar="DIR",
        envvar="BAKERY_OUTPUT",
        callback=written,
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        help="Grant what the recipe asks of this machine: fs.read=PATH, fs.write=PATH, secret.env=VARIABLE, "
        "secret.command=NAME (run the program that prints a secret), cache=PLACE; image=NAME and server=ADDRESS beside "
        "credentials; index=ADDRESS for cibuildwheel. May be repeated.",
        metavar="GRANT",
        envvar="BAKERY_ALLOW",
    ),
]
CaBundle = Annotated[
    Path | None,
    typer.Option(
        "--ca-bundle",
        help="CA certificates (PEM) for build steps. Default: the file that SSL_CERT_FILE or a similar variable names. "
        "Steps get it as a secret: it is neither in an image nor part of a cache key.",
        metavar="FILE",
        envvar="BAKERY_CA_BUNDLE",
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        "--shard",
        help="Select part I of N nearly equal parts of the cells, for CI with N machines: --shard 2/4. Cells that share "
        "a compile are in one part.",
        metavar="I/N",
        envvar="BAKERY_SHARD",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", help="Skip cells that no change since this git revision affects, and say why.", metavar="REV"
    ),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Run every step, even if it is cached.")]
Builder = Annotated[
    str | None,
    typer.Option(
        "--builder",
        help="A builder with several nodes ([builders.NAME]), which share the cells; or a builder of buildx.",
        envvar="BAKERY_BUILDER",
        metavar="NAME",
    ),
]
Progress = Annotated[
    str,
    typer.Option(
        "--progress",
        help="How to show progress: auto, tty, plain, verbose, rawjson or quiet.",
        envvar="BAKERY_PROGRESS",
        metavar="MODE",
    ),
]
EngineUp = Annotated[
    bool,
    typer.Option(
        "--engine-up", help="If no engine is running, install and start a private one (`wheel-bakery engine up`)."
    ),
]
Wheels = Annotated[list[Path], typer.Argument(help="Wheels, and folders of wheels.", metavar="WHEEL|DIR…")]


def globs(only: list[str] | None, skip: list[str] | None) -> tuple[str, ...]:
    """Return the globs of ``--only`` and ``--skip``, as `bakery.plan.cells.selects` has them."""
    return (*(only or ()), *(f"!{glob}" for glob in skip or ()))
