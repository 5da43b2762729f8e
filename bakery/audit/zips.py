"""Opens untrusted zip archives: the table of members is bounded before it is read."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from bakery.audit.limits import LARGEST_DIRECTORY, LONGEST_NAME, OverLimit

METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""The compressions that every installer reads; the others can also ask for gigabytes of memory."""

ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError),
    *(ValueError, RuntimeError, OverflowError, LookupError),
)
"""What ``zipfile`` raises over a damaged archive."""


class _Bounded:
    """A file whose archive cannot ask for more bytes than it has, nor for a table of members that no sound one has."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = file.seek(0, 2)
        self.in_table = True
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if self.in_table and size > LARGEST_DIRECTORY:
            raise OverLimit(f"its table of members has more than {LARGEST_DIRECTORY >> 20} MiB")
        return self._file.read(min(size, self._size))


def error_text(error: BaseException) -> str:
    """Return why an archive cannot be read; ``zipfile`` repeats names that may be as long as the file."""
    return (str(error) or type(error).__name__)[:300]


@contextmanager
def open_zip(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    """Give the archive in a file that is open for reading.

    Raises:
        OverLimit: it has more members, or longer names, than any wheel.
        Exception: one of `ZIP_ERRORS`: it is no archive.
    """
    bounded = _Bounded(file)
    with zipfile.ZipFile(bounded) as archive:
        bounded.in_table = False
        if any(len(info.orig_filename) > LONGEST_NAME for info in archive.infolist()):
            raise OverLimit(f"a member's path has more than {LONGEST_NAME} characters")
        yield archive
