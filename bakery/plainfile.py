"""Opens plain files only: reading a pipe waits for a writer, and a device such as /dev/zero never ends."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_plain(path: Path) -> BufferedReader:
    """Open a file for reading, also through a link.

    Raises:
        OSError: it cannot be opened, or it is a folder, a pipe, a device or a socket.
    """
    handle = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return os.fdopen(handle, "rb")


def read_plain(path: Path, most: int) -> bytes:
    """Return the content of a file of at most ``most`` bytes.

    Raises:
        OSError: it cannot be opened, it is not a plain file, or it is larger.
    """
    with open_plain(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
    return data
