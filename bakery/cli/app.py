"""The command and its subcommands."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from bakery import __version__
from bakery.cli import bake, builders, compile, engine, generate, init, modules, plan, profile, reference, wheels
from bakery.cli.console import failures, out
from bakery.core.errors import EXIT_CODES, InterruptedBake

_EPILOG = "\n\n".join(["Exit codes", "0  Success.", *(f"{code}  {text}" for code, text in sorted(EXIT_CODES.items()))])

app = typer.Typer(
    name="bakery",
    help="Build native Python wheels with Docker: from one recipe to a bake file, a Dockerfile, and audited wheels.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    directory: Annotated[
        Path | None,
        typer.Option("--directory", "-C", help="Work in this folder.", metavar="DIR", exists=True, file_okay=False),
    ] = None,
) -> None:
    if directory is not None:
        os.chdir(directory)
    if version:
        out.print(__version__)
        raise typer.Exit


for _name, (_command, _help) in bake.commands().items():
    app.command(_name, help=_help)(_command)
_COMMANDS: dict[str, Callable[..., None]] = {
    "init": init.init,
    "compile": compile.compile_,
    "lock": generate.lock,
    "plan": plan.plan,
    "check": plan.check,
    "generate": generate.generate,
    "audit": wheels.audit,
    "verify": wheels.verify,
    "validate": modules.validate,
    "benchmark": modules.benchmark,
    "reproduce": wheels.reproduce,
    "profile": profile.profile,
    "index": wheels.index,
    "gpus": reference.gpus,
    "rules": reference.rules,
    "explain": reference.explain,
    "doctor": engine.doctor,
    "schema": reference.schema,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
app.add_typer(engine.app, name="engine")
app.add_typer(builders.app, name="builders")


def main() -> None:
    """Run the command. Every failure prints a message and sets its exit code."""
    _remove_relative_folders_from_path()
    for stream in (sys.stdout, sys.stderr):
        # A terminal without "✓" shows a replacement character.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        with failures():
            try:
                app()
            except _Signal as name:
                hint = "the output folder has complete wheels only"
                raise InterruptedBake(f"interrupted by {name}", hint=hint) from None
    finally:
        # Everything is printed. A second signal, while Python exits, would only change the exit code.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _remove_relative_folders_from_path() -> None:
    """Remove relative folders from PATH, so that bakery never runs a git or docker of the folder that it works in."""
    if "PATH" in os.environ:
        folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder).is_absolute()]
        # An empty PATH means the working folder.
        os.environ["PATH"] = os.pathsep.join(folders) or os.defpath


class _Signal(BaseException):
    """The name of a signal. No Exception, which others catch, and no KeyboardInterrupt, for which typer prints nothing."""


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    # While buildx runs, a run installs other handlers.
    raise _Signal(signal.Signals(number).name)
