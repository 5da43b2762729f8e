"""Unpack source archives: nothing leaves the folder, and none holds far more than a source."""

from __future__ import annotations

import bz2
import gzip
import os
import sys
import tarfile
import zipfile
import zlib
from typing import IO, cast

LARGEST_SOURCE = 4 << 30
MOST_MEMBERS = 200_000
"""What a source may have (bytes, members): many times what real ones do."""

LARGEST_READ = 16 << 20
"""Bytes that are read at once: the files of an archive are read in pieces, but a header of tar as a whole."""

DAMAGES = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError)


def unpack(archive: str, folder: str) -> None:
    """Unpack an archive; exit if it is damaged, or if a member is refused.

    Refused are members outside the folder, devices, links that lead out, and too much data.
    """
    try:
        with open(archive, "rb") as stream:
            if archive.endswith(".zip"):
                unpack_zip(stream, folder)
            else:
                unpack_tar(stream, folder)
    except DAMAGES as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        sys.exit("sdist: cannot unpack " + os.path.basename(archive) + ": " + reason)


def unpack_zip(stream: IO[bytes], folder: str) -> None:
    """Unpack a zip archive."""
    with zipfile.ZipFile(stream) as archive:
        room = Room()
        # No more is written of a member than what it says of its size.
        for member in archive.infolist():
            room.take(member.file_size)
            if not inside(member.filename, folder):
                raise zipfile.BadZipFile("refusing " + member.filename)
        archive.extractall(folder)


def unpack_tar(stream: IO[bytes], folder: str) -> None:
    """Unpack a tar archive."""
    with tarfile.open(fileobj=Pieces(plain(stream)), mode="r:") as archive:  # type: ignore[call-overload]
        room = Room()
        for member in archive:
            room.take(member.size)
            if not inside(member.name, folder):
                raise tarfile.TarError("refusing " + member.name)
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
            return
        # Where a chain of links leads cannot be told before they are there.
        for member in archive.getmembers():
            if not (member.isfile() or member.isdir()):
                raise tarfile.TarError("refusing " + member.name + ", a link or a device; Python 3.12 can tell more")
        archive.extractall(folder)


class Room:
    """Counts what members of an archive take."""

    def __init__(self) -> None:
        self.members = 0
        self.size = 0

    def take(self, size: int) -> None:
        """Count one member; TarError if there are too many."""
        self.members += 1
        self.size += size
        if size < 0 or self.members > MOST_MEMBERS or self.size > LARGEST_SOURCE:
            most = str(MOST_MEMBERS) + " members of " + str(LARGEST_SOURCE) + " bytes"
            raise tarfile.TarError("refusing more than " + most)


class Pieces:
    """A stream that is never read in one large piece."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.seek = stream.seek
        self.tell = stream.tell

    def read(self, size: int) -> bytes:
        """Read some bytes; TarError if there are too many."""
        if size > LARGEST_READ:
            raise tarfile.TarError("refusing a header of " + str(size) + " bytes")
        return self.stream.read(size)


def plain(stream: IO[bytes]) -> IO[bytes]:
    """Return what a compressed stream holds, whatever its file is called."""
    first = stream.read(3)
    stream.seek(0)
    if first.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
    return cast("IO[bytes]", bz2.BZ2File(stream)) if first == b"BZh" else stream


def inside(name: str, folder: str) -> bool:
    """Say whether a member's name stays inside the folder."""
    root = os.path.realpath(folder)
    place = os.path.realpath(os.path.join(root, name))
    return place == root or place.startswith(root + os.sep)
