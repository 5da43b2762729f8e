"""How failures end a command: a message, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from bakery.core.errors import BakeryError, InterruptedBake

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
        _show(error)
        leave(error.exit_code)
    except KeyboardInterrupt:
        _show(InterruptedBake("interrupted", hint="nothing was changed"))
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
            _show(BakeryError(f"{message[:1].lower()}{message[1:]}{path}", hint=hint))
        else:
            text = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
            hint = "this is a bug in bakery; set BAKERY_DEBUG=1 to see the traceback"
            _show(BakeryError(f"internal error: {text}", hint=hint))
        leave(BakeryError.exit_code)


def _show(error: BakeryError) -> None:
    # Imported late: rich takes long, and most commands do not fail.
    from bakery.cli.console import show

    show(error)


def leave(code: int) -> NoReturn:
    """Exit with ``code``."""
    raise SystemExit(code)
