"""How failures end a command: a message, and an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TextIO

from bakery.core.errors import BakeryError, InterruptedBake, OutputError

if TYPE_CHECKING:
    from typing_extensions import Buffer

OF_THE_MACHINE = {
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some disk space, or raise the quota",
    errno.EROFS: "make the folder writable, or choose another one",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close programs with many open files",
    errno.ENOMEM: "free memory, or run fewer cells in parallel (--max-parallel)",
    errno.ENAMETOOLONG: "shorten the name, or remove the link to it",
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


class _Output(io.FileIO):
    """A file whose further output goes nowhere once the reader (a pager, `head`) has closed the pipe, or it is full.

    Results that cannot be written (standard output) are a failure; messages are not.
    """

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if self.fileno() == 1 and not isinstance(error, BrokenPipeError):
                raise OutputError(
                    f"cannot write to standard output: {error.strerror}",
                    hint="the command did its work; free space, then ask for its output again",
                ) from error
            return memoryview(data).nbytes


def open_streams() -> None:
    """Give a standard stream that was closed (``>&-``) a place: otherwise files that are opened get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            try:
                os.fstat(number)
            except OSError:
                os.dup2(nowhere, number)
            setattr(sys, name, os.fdopen(nowhere, "w" if number else "r", encoding="utf-8", closefd=False))


def without_reader(stream: TextIO) -> TextIO:
    """Return a standard stream whose reader may leave: the command goes on, and keeps its exit code."""
    if not isinstance(stream, io.TextIOWrapper) or stream.isatty():
        return stream
    raw = _Output(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, line_buffering=stream.line_buffering)


def leave(code: int) -> NoReturn:
    """Exit with ``code``."""
    raise SystemExit(code)
