"""What every command shares: the consoles, and printing."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import IO, TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from bakery.core.errors import BakeryError

if TYPE_CHECKING:
    from bakery.build.buildx.board import Listener


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


out = Console(highlight=False, soft_wrap=True, width=columns_of(sys.stdout))
"""Standard output, for results."""

err = Console(stderr=True, highlight=False, soft_wrap=True, width=columns_of(sys.stderr))
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
    err.print(Text(text, style="dim"))


def echo(text: str) -> None:
    """Print one result, as it is, to standard output."""
    out.print(text, markup=False, soft_wrap=True)


def echo_json(document: object) -> None:
    """Print a result as JSON to standard output."""
    echo(json.dumps(document, indent=2))


def progress_display(mode: str = "auto") -> Listener:
    """Return the display for a value of ``--progress``. Raises UsageError if there is no such mode."""
    from bakery.build.display import choose

    return choose(mode, out if mode == "rawjson" else err, os.environ)
