"""What every command shares: the consoles, and printing."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from bakery.core.errors import BakeryError

if TYPE_CHECKING:
    from bakery.build.buildx.progress import Listener


def _width() -> int | None:
    """Return the terminal's width if COLUMNS is 0, which rich takes literally; None to let rich choose."""
    columns = os.environ.get("COLUMNS", "")
    return shutil.get_terminal_size().columns if columns.isdigit() and not int(columns[:9]) else None


out = Console(highlight=False, soft_wrap=True, width=_width())
"""Standard output, for results."""

err = Console(stderr=True, highlight=False, soft_wrap=True, width=_width())
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
