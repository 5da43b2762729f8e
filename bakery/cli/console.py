"""What every command shares: the consoles, and how failures are shown."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from bakery.core.errors import BakeryError, InterruptedBake


def _width() -> int | None:
    """Return the columns to draw in where COLUMNS says 0, which rich takes literally; None for its own choice."""
    columns = os.environ.get("COLUMNS", "")
    return shutil.get_terminal_size().columns if columns.isdigit() and not int(columns[:9]) else None


out = Console(highlight=False, soft_wrap=True, width=_width())
"""Results: what a pipe should get."""

err = Console(stderr=True, highlight=False, soft_wrap=True, width=_width())
"""Everything else: progress and failures."""


OF_THE_MACHINE = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room, or have the quota raised",
    errno.EROFS: "let the folder be written to, or name another",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close programs with many open files",
    errno.ENOMEM: "free memory, or run fewer cells at a time (--max-parallel)",
    errno.EIO: "look at the disk: it does not read or write what it holds",
}
"""What ends any program, and no defect of this one → what to do."""


@contextmanager
def failures() -> Iterator[None]:
    """Show a `BakeryError` as text with its hint and exit with its code; no traceback reaches a person."""
    try:
        yield
    except BakeryError as error:
        show(error)
        leave(error.exit_code)
    except KeyboardInterrupt:
        show(InterruptedBake("interrupted", hint="nothing was changed"))
        leave(InterruptedBake.exit_code)
    except BrokenPipeError:
        # The reader (a pager, `head`) has what it wanted.
        sys.stderr.close()
        leave(0)
    except Exception as error:
        if os.environ.get("BAKERY_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno in OF_THE_MACHINE:
            where = f": {error.filename}" if error.filename else ""
            hint = (
                f"{OF_THE_MACHINE[error.errno]}, then run the command again; of a bake, --resume keeps what is finished"
            )
            said = os.strerror(error.errno)
            show(BakeryError(f"{said[:1].lower()}{said[1:]}{where}", hint=hint))
            leave(BakeryError.exit_code)
        text = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
        show(
            BakeryError(f"internal error: {text}", hint="this is a defect of bakery; BAKERY_DEBUG=1 shows where it is")
        )
        leave(BakeryError.exit_code)


def show(error: BakeryError) -> None:
    """Print a failure: what is wrong, the lines that show it, what to do next."""
    line = Text()
    line.append(f"{error.title}: ", style="bold red")
    line.append(error.message, style="bold")
    err.print(line)
    for detail in error.details:
        err.print(Text("  " + detail))
    if error.hint:
        hint = Text()
        hint.append("→ ", style="cyan")
        hint.append(error.hint)
        err.print(hint)


def say(text: str) -> None:
    """Print one line about what is going on."""
    err.print(Text(text, style="dim"))


def leave(code: int) -> NoReturn:
    """Exit with ``code``."""
    raise SystemExit(code)
