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


_LOCAL = struct.Struct("<4s2xH6xIIIHH")
_MORE = 0xFFFFFFFF
"""In place of a size that needs more than 32 bits."""


def layout_defect(file: IO[bytes], archive: zipfile.ZipFile) -> str:
    """Return why reading an archive from its start finds something else than its table; empty if it does not.

    PyPI and uv refuse bytes before, between or after the members, and members that the table lacks, since two tools may
    unpack different files. Layouts from PKWARE's APPNOTE.TXT, 4.3.
    """
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    at = 0
    for info, end in zip(infos, [*(info.header_offset for info in infos[1:]), archive.start_dir], strict=False):
        if info.header_offset != at:
            break
        at = _end(file, info, end)
        if at < 0:
            return f"its header and the table of members contradict each other: {info.orig_filename}"
    if at != archive.start_dir:
        return f"what is at byte {at:,} is no member of its table"
    tail = 22 + len(archive.comment)
    file.seek(max(0, file.seek(0, 2) - tail))
    return "" if file.read(tail).startswith(b"PK\x05\x06") else "bytes follow the end of its table"


def _end(file: IO[bytes], info: zipfile.ZipInfo, end: int) -> int:
    """Return where a member ends; -1 if its header is not that of the table. The next one begins at ``end``."""
    file.seek(info.header_offset)
    mark, flags, *values, name, extra = _LOCAL.unpack(file.read(_LOCAL.size).ljust(_LOCAL.size, b"\0"))
    path = file.read(name).decode("utf-8" if flags & 0x800 else "cp437", "replace")
    if mark != b"PK\x03\x04" or path != info.orig_filename:
        return -1
    at = info.header_offset + _LOCAL.size + name + extra + info.compress_size
    known = info.CRC, info.compress_size, info.file_size
    if not flags & 8:
        return at if all(one in (other, _MORE) for one, other in zip(values, known, strict=True)) else -1
    # Checksum and sizes follow the data: with or without a mark, in 32 or 64 bits.
    forms = [struct.pack("<IQQ", *known), *([struct.pack("<III", *known)] if max(known) < _MORE else [])]
    file.seek(at)
    follows = file.read(min(max(end - at, 0), 25))
    return end if follows in [lead + form for lead in (b"", b"PK\x07\x08") for form in forms] else at


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
