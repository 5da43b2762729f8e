"""The command and its subcommands."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from bakery import __version__
from bakery.cli import (
    audit,
    bake,
    builders,
    compile,
    doctor,
    engine,
    generate,
    gpus,
    index,
    lock,
    modules,
    plan,
    reproduce,
    rules,
    schema,
    verify,
)
from bakery.cli.console import failures, out
from bakery.core.errors import EXIT_CODES, InterruptedBake

_EPILOG = "\n\n".join(
    ["Exit codes", "0  All is well.", *(f"{code}  {text}" for code, text in sorted(EXIT_CODES.items()))]
)

app = typer.Typer(
    name="bakery",
    help="Bake native Python wheels: one recipe becomes a bake file, a Dockerfile, and wheels that are what they claim.",
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


for module in (
    bake,
    compile,
    lock,
    plan,
    generate,
    audit,
    verify,
    modules,
    reproduce,
    index,
    gpus,
    rules,
    doctor,
    schema,
):
    module.register(app)
app.add_typer(engine.app, name="engine")
app.add_typer(builders.app, name="builders")


def main() -> None:
    """Run the command; every failure ends in text and an exit code of its own."""
    _leave_out_relative_folders()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that knows no "✓" shows another character; it is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        with failures():
            try:
                app()
            except _Signal as arrived:
                raise InterruptedBake(
                    f"interrupted by {arrived}", hint="nothing half done is in the output folder"
                ) from None
    finally:
        # All is said: a second one, while Python ends, would only take the exit code away.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _leave_out_relative_folders() -> None:
    """Take relative folders off PATH, so that git and docker are never programs of the folder that bakery works in."""
    if "PATH" in os.environ:
        folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder).is_absolute()]
        # An empty PATH is the working folder.
        os.environ["PATH"] = os.pathsep.join(folders) or os.defpath


class _Signal(BaseException):
    """A signal's name. Neither a failure that something could swallow, nor KeyboardInterrupt, on which typer is mute."""


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    # While buildx runs, its own handlers are in place.
    raise _Signal(signal.Signals(number).name)
