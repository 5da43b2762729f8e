"""Opens files that strangers may have made: regular ones only, and with a limit of bytes."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from functools import partial
from io import BufferedReader
from itertools import islice
from pathlib import Path

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""How a file is opened: opening a pipe waits for a writer, and a device such as /dev/zero never ends."""


MOST_HASHED = 4 << 30
"""Bytes of a wheel, module or record: the limit of a zip archive without extensions. A file of terabytes may be sparse."""


def open_plain(path: Path, *, follow: bool = False) -> BufferedReader:
    """Open a regular file. Raises OSError for a folder, a pipe, a device, a socket or, unless ``follow``, a link.

    Only the last part of the path is looked at.
    """
    try:
        return plain(os.open(path, FLAGS | (0 if follow else _NO_LINK)), str(path))
    except OSError as error:
        if follow or error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "not a regular file: a link", str(path)) from None


def plain(handle: int, name: str) -> BufferedReader:
    """Return the file of a handle. Closes it and raises OSError if it is no regular file."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return os.fdopen(handle, "rb")


def read_plain(path: Path, most: int, *, follow: bool = False) -> bytes:
    """Return the content of a regular file. Raises OSError as `open_plain`, and if it has more than ``most`` bytes."""
    with open_plain(path, follow=follow) as file:
        return content(file, most, str(path))


def content(file: BufferedReader, most: int, name: str) -> bytes:
    """Return what an open file has. Raises OSError if it has more than ``most`` bytes."""
    # Nothing of a file that is too large is read; one that grows meanwhile is refused, too.
    if os.fstat(file.fileno()).st_size <= most:
        # In pieces: Python reserves memory for all that is asked for.
        data = b"".join(islice(iter(partial(file.read, 1 << 20), b""), (most >> 20) + 2))
        if len(data) <= most:
            return data
    raise OSError(errno.EFBIG, f"larger than {most} bytes", name)


def file_sha256(path: Path, *, follow: bool = True) -> str:
    """Return the SHA-256 of a regular file, in hexadecimal. Raises OSError as `open_plain` and `sha256_of`."""
    with open_plain(path, follow=follow) as file:
        return sha256_of(file)


def sha256_of(file: BufferedReader) -> str:
    """Return the SHA-256 of an open file, in hexadecimal. Raises OSError if it has more than `MOST_HASHED` bytes."""
    if os.fstat(file.fileno()).st_size > MOST_HASHED:
        raise OSError(errno.EFBIG, f"larger than {MOST_HASHED >> 30} GiB")
    return hashlib.file_digest(file, "sha256").hexdigest()
