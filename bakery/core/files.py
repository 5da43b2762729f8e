"""Writes generated files and checks them for drift, hashes files, packs them into tars."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bakery.core.errors import DriftError, OutputError
from bakery.core.inside import Inside
from wheel_audit.plain_files import open_plain

if TYPE_CHECKING:
    from tarfile import TarFile, TarInfo

LARGEST = 64 << 20
"""Bytes that a generated file may have."""

_LARGEST_HEADER = 1 << 16


def write(root: Path, texts: Mapping[str, str]) -> list[str]:
    """Write each text below ``root``, replacing a file as a whole; return the paths that changed.

    Raises OutputError if a file cannot be written, or a folder below ``root`` is a link; a file that exists stays.
    """
    changed = []
    for name, text in texts.items():
        try:
            root.mkdir(parents=True, exist_ok=True)
            if _content(root, name) != text.encode():
                Inside(root).write(name, text.encode())
                changed.append(name)
        except OSError as error:
            hint = "check permissions and space, and remove links"
            raise OutputError(f"cannot write {error.filename or root / name}: {error.strerror}", hint=hint) from error
    return changed


def write_file(path: Path, data: bytes | IO[bytes], mode: int = 0o666) -> None:
    """Write a file of a folder that exists: at any moment it has the old content or all of the new one. Raises OSError."""
    Inside(path.parent).write(path.name, data, mode)


def compare(root: Path, texts: Mapping[str, str]) -> None:
    """Compare each text with its file. Raises DriftError with a unified diff if a file differs or is missing."""
    diff: list[str] = []
    for name, text in texts.items():
        try:
            current = (_content(root, name) or b"").decode("utf-8", "replace")
        except OSError as error:
            raise OutputError(f"cannot read {root / name}: {error.strerror}") from error
        diff += difflib.unified_diff(
            current.splitlines(), text.splitlines(), name, f"{name} (from the recipe)", lineterm=""
        )
    if diff:
        raise DriftError("generated files differ from their recipes", hint="run `wheel-bakery generate`", details=diff)


def _content(root: Path, name: str) -> bytes | None:
    """Return the content of a file; None if it is not there."""
    try:
        return Inside(root).read(name, LARGEST)
    except FileNotFoundError:
        return None


def add_to_tar(archive: TarFile, name: str, content: Path | bytes, mode: int = 0o644) -> None:
    """Add a file to a tar, with nothing of this machine or moment in its header. Raises OSError."""
    member = archive.tarinfo(name)
    member.mode = mode
    with BytesIO(content) if isinstance(content, bytes) else open_plain(content) as source:
        member.size = source.seek(0, os.SEEK_END)
        source.seek(0)
        archive.addfile(member, source)


class _Bounded:
    """The file of an archive. `tarfile` reads a header as a whole, and one may claim any size."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.in_header = file, True
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if self.in_header and size > _LARGEST_HEADER:
            from tarfile import ReadError

            raise ReadError(f"a header of {size} bytes")
        return self._file.read(size)


def tar_members(file: IO[bytes], most: int) -> Iterator[tuple[TarInfo, IO[bytes] | None]]:
    """Yield the members of a tar that a stranger wrote; regular files with their content, until the next one is asked for.

    Raises tarfile.TarError if it is damaged, or has more than ``most`` members, or long headers.
    """
    import tarfile

    bounded = _Bounded(file)
    try:
        with tarfile.open(fileobj=bounded, mode="r:") as archive:  # type: ignore[call-overload]
            for _ in range(most + 1):
                bounded.in_header = True
                if (member := archive.next()) is None:
                    return
                # It would keep all of them.
                archive.members.clear()
                bounded.in_header = False
                yield member, archive.extractfile(member) if member.isreg() and not member.issparse() else None
    except RecursionError:
        raise tarfile.ReadError("headers of headers") from None
    raise tarfile.ReadError(f"more than {most} members")
