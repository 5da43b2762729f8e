"""Opens untrusted zip archives: the size of the table of members is checked before it is read."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from wheel_audit.limits import LARGEST_DIRECTORY, LONGEST_NAME, OverLimit

METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""The compressions that every installer reads; the others can also need gigabytes of memory."""

ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError),
    *(ValueError, RuntimeError, OverflowError, LookupError),
)
"""What ``zipfile`` raises for a damaged archive."""


class _Bounded:
    """A file that limits reads to its size, and the table of members to what valid archives have."""

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
    """Return why an archive cannot be read, shortened: ``zipfile`` repeats names that may be as long as the file."""
    return (str(error) or type(error).__name__)[:300]


@contextmanager
def open_zip(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    """Open the archive in a file. Raises OverLimit for too many members or too long names, and `ZIP_ERRORS`."""
    bounded = _Bounded(file)
    with zipfile.ZipFile(bounded) as archive:
        bounded.in_table = False
        if any(len(info.orig_filename) > LONGEST_NAME for info in archive.infolist()):
            raise OverLimit(f"a member's path has more than {LONGEST_NAME} characters")
        yield archive
