"""Reads regular files only, writes generated files and checks them for drift, hashes files, packs them into tars."""

from __future__ import annotations

import difflib
import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.core.errors import DriftError, OutputError

if TYPE_CHECKING:
    from tarfile import TarFile

LARGEST = 64 << 20
"""Bytes that a generated file may have."""

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Reading a pipe waits for a writer, and a device such as /dev/zero never ends."""


def open_plain(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open a regular file. Raises OSError for a folder, a pipe, a device, a socket or, unless ``follow``, a link."""
    handle = os.open(path, _FLAGS | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb")


def read_plain(path: Path, most: int, *, follow: bool = True) -> bytes:
    """Return the content of a regular file. Raises OSError if it cannot be opened or has more than ``most`` bytes."""
    with open_plain(path, follow=follow) as file:
        # Nothing of a file that is too large is read; one that grows meanwhile is refused, too.
        large = os.fstat(file.fileno()).st_size > most
        data = b"" if large else file.read(most + 1)
    if large or len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return data


def write(root: Path, texts: Mapping[str, str]) -> list[str]:
    """Write each text below ``root``, replacing a file as a whole; return the paths that changed.

    Raises OutputError if a file cannot be written, or a link leads its folder out of ``root``; a file that exists stays.
    """
    changed = []
    for name, text in texts.items():
        path = _inside(root, name)
        try:
            if path.is_file() and read_plain(path, LARGEST) == text.encode():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            # A checkout may bring a link of that name, too.
            scratch.unlink(missing_ok=True)
            with scratch.open("xb") as file:
                file.write(text.encode())
            scratch.replace(path)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}", hint="check permissions and space") from error
        changed.append(name)
    return changed


def compare(root: Path, texts: Mapping[str, str]) -> None:
    """Compare each text with its file. Raises DriftError with a unified diff if a file differs or is missing."""
    diff: list[str] = []
    for name, text in texts.items():
        try:
            current = read_plain(_inside(root, name), LARGEST).decode("utf-8", "replace")
        except FileNotFoundError:
            current = ""
        except OSError as error:
            raise OutputError(f"cannot read {root / name}: {error.strerror}") from error
        diff += difflib.unified_diff(
            current.splitlines(), text.splitlines(), name, f"{name} (from the recipe)", lineterm=""
        )
    if diff:
        raise DriftError("generated files differ from their recipes", hint="run `wheel-bakery generate`", details=diff)


def _inside(root: Path, name: str) -> Path:
    """Return the path of a file below ``root``; what a checkout brings may be a link to anywhere."""
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise OutputError(f"{path} is a link that leads out of {root}", hint="remove the link")
    return path


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def add_to_tar(archive: TarFile, name: str, content: Path | bytes, mode: int = 0o644) -> None:
    """Add a file to a tar, with nothing of this machine or moment in its header. Raises OSError."""
    member = archive.tarinfo(name)
    member.mode = mode
    with BytesIO(content) if isinstance(content, bytes) else content.open("rb") as source:
        member.size = source.seek(0, os.SEEK_END)
        source.seek(0)
        archive.addfile(member, source)
