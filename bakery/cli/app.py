"""The command and its subcommands."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from bakery import __version__
from bakery.cli.command_group import COMPLETE, PROGRAM, SETTINGS, group_of
from bakery.cli.failures import failures, open_streams, without_reader
from bakery.cli.plugins import Entry
from bakery.core.errors import InterruptedBake, UsageError
from bakery.core.file_locks import WAITING

_TASKS = {
    "Write a recipe": {
        "init": Entry("Write a first recipe for a project.", "init:init"),
        "adopt": Entry("Compare the plan, or a folder of wheels, with the last release.", "published:adopt"),
        "check": Entry("Check recipes, without an engine.", "plan:check"),
        "plan": Entry("Show the cells, how each is built, and where every value comes from.", "plan:plan"),
        "generate": Entry("Write the bake file, the Dockerfile and the workflow.", "generate:generate"),
        "lock": Entry("Write bakery.lock: the exact base images and packages.", "generate:lock"),
    },
    "Build and test wheels": {
        "wheel": Entry("Build, repair and audit the wheels.", "bake:COMMANDS"),
        "test": Entry("Test each wheel in a clean image.", "bake:COMMANDS"),
        "full": Entry("Build and test; keep only the wheels that pass.", "bake:COMMANDS"),
        "dev": Entry("Make an image with the build tools and the project, for a shell.", "bake:COMMANDS"),
        "bake": Entry("Bake several kinds of targets in one run.", "bake:COMMANDS"),
        "profile": Entry("Show where the time of a cell went, and what would help.", "kept_runs:profile"),
        "shell": Entry("Open a shell in the state before a step, with its mounts and network.", "shell:shell"),
        "logs": Entry("Print the log of the last run, or of one of its steps.", "kept_runs:logs"),
        "report": Entry("Write the HTML page of a run: results, times, failures.", "kept_runs:report"),
        "why": Entry("Explain which stages are built again: which file or argument changed.", "kept_runs:why"),
    },
    "Release": {
        "audit": Entry("Inspect wheels: tags, glibc, GPU code, bundled libraries, size.", "wheels:audit"),
        "verify": Entry("Compare the wheels of a release with the plan.", "wheels:verify"),
        "gpu-test": Entry("Test wheels on the GPU of this machine.", "wheels:gpu_test"),
        "reproduce": Entry("Build a wheel again from its provenance, and compare the bytes.", "wheels:reproduce"),
        "variants": Entry("Package wheels again as wheel variants (PEP 825).", "wheels:variants"),
        "meta": Entry("Write the meta package of wheels with several names.", "wheels:meta"),
        "coverage": Entry("Show what a package index lacks, and which releases are new.", "published:coverage"),
        "index": Entry("Write a static package index for pip and uv.", "wheels:index"),
    },
    "Look things up": {
        "gpus": Entry("Show which GPUs a list of architectures covers.", "reference:gpus"),
        "rules": Entry("List the rules that every plan is checked against.", "reference:rules"),
        "explain": Entry("Explain a rule: what must hold, why, and how to fix it.", "reference:explain"),
        "schema": Entry("Print a JSON schema, for editors.", "reference:schema"),
        "completion": Entry("Print the completion script of a shell.", "reference:completion"),
    },
    "Set up the machine": {
        "doctor": Entry("Check what a bake needs: engine, disk, memory, networks.", "engine:doctor"),
        "engine": Entry("Manage the private Docker engine, for Debian without Docker.", "engine:app"),
        "builders": Entry("Manage builders with several nodes.", "builders:app"),
    },
}

app = typer.Typer(
    name="bakery",
    cls=group_of(_TASKS),
    help="Build native Python wheels with Docker: from one recipe to a bake file, a Dockerfile, and audited wheels.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
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
    try:
        Path.cwd()
    except FileNotFoundError:
        hint = "cd into another one, or name one: wheel-bakery --directory DIR …"
        raise UsageError("the folder that you are in is gone", hint=hint) from None
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command. Every failure prints a message and sets its exit code."""
    _remove_relative_folders_from_path()
    open_streams()
    sys.stdout, sys.stderr = without_reader(sys.stdout), without_reader(sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        # A terminal without "✓" shows a replacement character.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    WAITING.say = _say
    try:
        with failures():
            try:
                if COMPLETE in os.environ:
                    from bakery.cli.shell_completion import install

                    install()
                try:
                    app(prog_name=PROGRAM if COMPLETE in os.environ else None)
                finally:
                    # A full disk is a failure of the command, not of Python's exit.
                    sys.stdout.flush()
            except _Signal as name:
                hint = "the output folder has complete wheels only"
                raise InterruptedBake(f"interrupted by {name}", hint=hint) from None
    finally:
        # Everything is printed. A second signal, while Python exits, would only change the exit code.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        # Python looks for cycles in all that is left when it ends, and the memory is gone anyway.
        gc.freeze()


def _say(text: str) -> None:
    # Slow to import, and few commands wait.
    from bakery.cli.console import say

    say(text)


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
