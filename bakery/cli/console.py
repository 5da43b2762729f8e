"""What every command shares: the consoles, and printing."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer
from rich.text import Text

from bakery.core.errors import BakeryError
from wheel_audit.terminal import SafeConsole, shown, write, write_json
from wheel_audit.text import printable

if TYPE_CHECKING:
    from bakery.runs.buildx.board import Listener


_LOG_WIDTH = 140
"""Columns of a log: it has no width of its own, and tables with the names of wheels fit."""


def columns_of(stream: IO[str]) -> int | None:
    """Return the columns of what is printed on a stream; None to let rich take those of COLUMNS or the terminal."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns[:9]):
        return None
    if not stream.isatty():
        return _LOG_WIDTH
    # rich takes 0 in COLUMNS literally.
    return shutil.get_terminal_size().columns if columns.isdigit() else None


out = SafeConsole(width=columns_of(sys.stdout))
"""Standard output, for results."""

err = SafeConsole(stderr=True, width=columns_of(sys.stderr))
"""Standard error, for progress and failures."""


def show(error: BakeryError) -> None:
    """Print a failure: its message, its details, and its hint."""
    err.print(Text.assemble((f"{error.title}: ", "bold red"), (error.message, "bold")))
    for detail in error.details:
        err.print(Text("  " + detail))
    if error.hint:
        err.print(Text.assemble(("→ ", "cyan"), error.hint))


def say(text: str) -> None:
    """Print one line of progress to standard error."""
    err.print(Text(printable(text, keep="\t"), style="dim"))


def echo(line: str) -> None:
    """Print one line of a result to standard output."""
    echo_text(printable(line, keep="\t"))
    out.file.flush()


def echo_text(text: str) -> None:
    """Print text of several lines, such as a file or a log, to standard output."""
    write(out.file, f"{text}\n")


def echo_json(document: object) -> None:
    """Print a result as JSON to standard output."""
    write_json(out.file, json.dumps(document, indent=2) + "\n")


def ask(question: str) -> str:
    """Return what the user answers; ``1`` without an answer."""
    return str(typer.prompt(shown(question), default="1", err=True)).strip()


def progress_display(mode: str = "auto") -> Listener:
    """Return the display for a value of ``--progress``. Raises UsageError if there is no such mode."""
    from bakery.runs.display import choose

    return choose(mode, out if mode == "rawjson" else err, os.environ)


def has_step_summary() -> bool:
    """Whether this is a job of GitHub Actions, which shows a summary on the page of the run."""
    return bool(os.environ.get("GITHUB_STEP_SUMMARY"))


def write_step_summary(text: str) -> None:
    """Append Markdown to the summary of the job; what cannot be written is said, and is no error."""
    path = os.environ.get("GITHUB_STEP_SUMMARY", "")
    try:
        with Path(path).open("a", encoding="utf-8", errors="replace") as file:
            file.write(text + "\n")
    except OSError as error:
        say(f"cannot write the step summary {path}: {error.strerror}")
