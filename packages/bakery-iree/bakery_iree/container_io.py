"""The pipes of a sandbox: tars of files in both directions, and the output of programs, all within limits."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from bakery.core.errors import OutputError
from bakery.core.files import add_to_tar, tar_members

LOG = 64 * 1024
"""Bytes of a program's output that are kept: the last ones."""

_CHUNK = 1024 * 1024


def pack(files: Mapping[str, Path | bytes], target: IO[bytes]) -> None:
    """Write a tar of files that every user may read. Raises OutputError if a file cannot be read."""
    try:
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, content in files.items():
                add_to_tar(archive, name, content)
    except OSError as error:
        raise OutputError(f"cannot read {error.filename or 'a file'}: {error.strerror or error}") from error


def unpack(data: IO[bytes], folder: Path, outputs: Sequence[str]) -> dict[str, Path]:
    """Write the files of a tar into a folder, under names of our own; return name in the tar → file.

    Raises OutputError if it is not a tar, or has something else than plain files with names in ``outputs``.
    """
    files: dict[str, Path] = {}
    try:
        for member, content in tar_members(data, len(outputs) + 1):
            name = member.name.removeprefix("out/")
            if member.isdir() and member.name == "out":
                continue
            if content is None or name not in outputs or name in files:
                raise OutputError(f"the container left an unexpected file: {member.name[:200]!a}")
            files[name] = folder / str(len(files))
            with files[name].open("wb") as target:
                shutil.copyfileobj(content, target, _CHUNK)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise OutputError(f"the output of the container cannot be read: {error}") from error
    return files


class _PipeReader(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self.start()

    def join(self, timeout: float | None = 5.0) -> None:
        """Wait for the end of the pipe, at most five seconds."""
        super().join(timeout)


class Tail(_PipeReader):
    """Reads a pipe to its end in a thread, and keeps the last `LOG` bytes.

    After ``marker``, which is not kept, ``has_begun`` is true. ``changed`` is set when something was read.
    """

    def __init__(self, pipe: IO[bytes], marker: bytes = b"") -> None:
        self.has_begun = False
        self.changed = threading.Event()
        self._marker = marker
        self._bytes = b""
        super().__init__(pipe)

    def run(self) -> None:
        """Read the pipe to its end."""
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), LOG):
                self._bytes += chunk
                if not self.has_begun and self._marker and self._marker in self._bytes:
                    self.has_begun = True
                    self._bytes = self._bytes.replace(self._marker, b"", 1)
                self._bytes = self._bytes[-LOG:]
                self.changed.set()

    @property
    def text(self) -> str:
        """The kept bytes as text."""
        return self._bytes.decode(errors="replace")


class Receiver(_PipeReader):
    """Reads a pipe into an unnamed file in a thread, to its end or to ``limit`` bytes.

    ``size`` is the number of bytes read, and ``exceeds_limit`` is true if there were more.
    """

    def __init__(self, pipe: IO[bytes], limit: int, folder: Path) -> None:
        self.exceeds_limit = False
        self.size = 0
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._limit = limit
        super().__init__(pipe)

    def run(self) -> None:
        """Read the pipe to its end."""
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), _CHUNK):
                self.size += len(chunk)
                if self.size > self._limit:
                    self.exceeds_limit = True
                    return
                self.file.write(chunk)
