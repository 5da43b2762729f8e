"""Files with secrets for one bake: never on a disk, and gone when this process ends."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def private_files(contents: Mapping[str, bytes]) -> Iterator[dict[str, Path]]:
    """Provide name → a file with the content, which this user's processes can read until the context ends.

    On Linux they are in memory and end with this process, even if it is killed; elsewhere they are in a folder of
    this user's own.
    """
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryDirectory(prefix="bakery-") as folder:
            yield {name: _written(Path(folder) / name, data) for name, data in contents.items()}
        return
    with contextlib.ExitStack() as stack:
        paths = {}
        for name, data in contents.items():
            file = stack.enter_context(os.fdopen(os.memfd_create("bakery"), "wb", buffering=0))
            file.write(data)
            os.fchmod(file.fileno(), 0o600)
            paths[name] = Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")
        yield paths


def _written(path: Path, data: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path
