"""Reads files that anybody may have written: regular files, and no more bytes than the caller expects."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Opening a named pipe without O_NONBLOCK waits for a writer."""


def read(path: Path, most: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: it cannot be read, is not a regular file, or has more than ``most`` bytes; ``strerror`` says which.
    """
    with os.fdopen(os.open(path, _FLAGS), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return data
