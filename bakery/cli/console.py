"""What every command shares: the consoles, printing, and how failures are shown."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from rich.text import Text

from bakery.core.errors import BakeryError, InterruptedBake

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


OF_THE_MACHINE = {
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some disk space, or raise the quota",
    errno.EROFS: "make the folder writable, or choose another one",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close programs with many open files",
    errno.ENOMEM: "free memory, or run fewer cells in parallel (--max-parallel)",
    errno.EIO: "check the disk: it cannot read or write some of its data",
}
"""Errors that are no defect of bakery → what to do."""


@contextmanager
def failures() -> Iterator[None]:
    """Show a `BakeryError` as text with its hint and exit with its code; users see no traceback."""
    try:
        yield
    except BakeryError as error:
        show(error)
        leave(error.exit_code)
    except KeyboardInterrupt:
        show(InterruptedBake("interrupted", hint="nothing was changed"))
        leave(InterruptedBake.exit_code)
    except BrokenPipeError:
        # The reader (a pager, `head`) has closed the pipe: no error.
        sys.stderr.close()
        leave(0)
    except Exception as error:
        if os.environ.get("BAKERY_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno in OF_THE_MACHINE:
            path = f": {error.filename}" if error.filename else ""
            message = os.strerror(error.errno)
            hint = f"{OF_THE_MACHINE[error.errno]}, then run the command again; --resume keeps finished cells of a bake"
            show(BakeryError(f"{message[:1].lower()}{message[1:]}{path}", hint=hint))
        else:
            text = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
            hint = "this is a bug in bakery; set BAKERY_DEBUG=1 to see the traceback"
            show(BakeryError(f"internal error: {text}", hint=hint))
        leave(BakeryError.exit_code)


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


def leave(code: int) -> NoReturn:
    """Exit with ``code``."""
    raise SystemExit(code)
