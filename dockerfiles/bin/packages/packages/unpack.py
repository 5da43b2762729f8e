"""Unpack source archives: nothing leaves the folder, and none holds far more than a source."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
import sys
import tarfile
import zipfile
import zlib
from typing import IO, Iterable, cast

LARGEST_SOURCE = 4 << 30
MOST_MEMBERS = 200_000
"""What a source may have (bytes, members): many times what real ones do."""

LONGEST_NAME = 1024
"""Bytes of a member's name."""

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
    """Unpack a zip archive: folders and files."""
    with zipfile.ZipFile(stream) as archive:
        check_sizes(member.file_size for member in archive.infolist())
        for member in archive.infolist():
            path = os.path.join(folder, *parts_of(member.filename))
            is_folder = member.filename.endswith("/")
            os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
            if not is_folder:
                # No more is written of a member than what it says of its size.
                with archive.open(member) as content, open(path, "wb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
                # The mode, if the archive was made on Unix. As for pip, an executable stays one.
                if member.external_attr >> 16 & 0o111:
                    os.chmod(path, 0o755)


def unpack_tar(stream: IO[bytes], folder: str) -> None:
    """Unpack a tar archive."""
    with tarfile.open(fileobj=Pieces(plain(stream)), mode="r:") as archive:  # type: ignore[call-overload]
        check_sizes(member.size for member in archive)
        save_tar(archive, folder)


def save_tar(archive: tarfile.TarFile, folder: str) -> None:
    """Unpack an archive below a folder that is empty; TarError for a member that may leave it.

    Not `extractall`: its filter is missing in older Pythons, and chains of links lead out of it (CVE-2025-4517). Files
    come first, links last: nothing is written through one.
    """
    members = [(parts_of(member.name), member) for member in archive]
    # File systems may ignore case.
    links = {"/".join(parts).casefold() for parts, member in members if member.issym()}
    for parts, member in members:
        names = ["/".join(parts[:depth]).casefold() for depth in range(1, len(parts))]
        kind = member.isfile() or member.isdir() or member.issym() or member.islnk()
        is_twice = not member.issym() and "/".join(parts).casefold() in links
        if not kind or is_twice or not links.isdisjoint(names):
            raise tarfile.TarError("refusing " + ascii(member.name) + ": a device, or below a link")
    waiting = []
    for parts, member in members:
        path = os.path.join(folder, *parts)
        os.makedirs(path if member.isdir() else os.path.dirname(path), exist_ok=True)
        if member.isfile():
            content = archive.extractfile(member)
            with open(path, "wb") as stream:
                shutil.copyfileobj(content, stream, 1 << 20)  # type: ignore[arg-type]
            os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)
            os.utime(path, (member.mtime, member.mtime))
        elif not member.isdir():
            waiting.append((parts, member))
    # Hard links are to files: they come while no other link is there.
    for parts, member in sorted(waiting, key=lambda item: item[1].issym()):
        path = os.path.join(folder, *parts)
        if member.islnk():
            os.link(os.path.join(folder, *parts_of(member.linkname)), path)
        elif stays(parts, member.linkname):
            os.symlink(member.linkname, path)
        else:
            raise tarfile.TarError("refusing " + ascii(member.name) + ", a link that leads out")


def parts_of(name: str) -> list[str]:
    """Return the parts of a member's name; TarError if it leaves the folder."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    # On Windows, a backslash separates, and a colon names a drive or a stream of a file.
    is_odd = "\0" in name or (os.name == "nt" and ("\\" in name or ":" in name))
    if name.startswith("/") or ".." in parts or is_odd or len(os.fsencode(name)) > LONGEST_NAME:
        raise tarfile.TarError("refusing " + ascii(name[:100]))
    return parts


def stays(parts: list[str], target: str) -> bool:
    """Whether a link stays in the folder, its target read as text: ``..`` only at its start, not behind another link."""
    steps = [step for step in target.split("/") if step not in ("", ".")]
    ups = next((depth for depth, step in enumerate(steps) if step != ".."), len(steps))
    is_odd = target.startswith("/") or "\0" in target or (os.name == "nt" and ("\\" in target or ":" in target))
    return not is_odd and len(os.fsencode(target)) <= LONGEST_NAME and ups < len(parts) and ".." not in steps[ups:]


def check_sizes(sizes: Iterable[int]) -> None:
    """Count the members of an archive and their bytes; TarError at the first that is too much."""
    total = 0
    for members, size in enumerate(sizes, 1):
        total += size
        if size < 0 or members > MOST_MEMBERS or total > LARGEST_SOURCE:
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
