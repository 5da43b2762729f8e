"""Opens regular files only: reading a pipe waits for a writer, and a device such as /dev/zero never ends."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_plain(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open a regular file for reading.

    Raises OSError if it cannot be opened, or it is a folder, a pipe, a device or a socket.

    Args:
        follow: open the file that a link leads to.
    """
    handle = os.open(path, _FLAGS | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb")


def read_plain(path: Path, most: int, *, follow: bool = True) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes.

    Raises OSError if it cannot be opened, it is not a regular file, or it is larger; ``strerror`` says which.
    """
    with open_plain(path, follow=follow) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return data
