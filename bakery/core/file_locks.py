"""Locks between processes, on every system. A lock is released when its process ends.

filelock is not used: it locks files, not folders, so it would leave a lock file in each output folder.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bakery.core.errors import InterruptedBake

_PAUSE_S = 0.05
"""Seconds between two attempts to get a lock that another process holds."""


def lock(handle: int, *, wait: bool = True) -> None:
    """Lock an open file or, not on Windows, folder. Raises BlockingIOError if it is locked and ``wait`` is false."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from error
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Hold the lock of a file; create it and its folders if needed. Raises OSError if it cannot be created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        lock(handle.fileno())
        yield


@contextmanager
def locked_folder(folder: Path, is_halted: Callable[[], bool] | None = None) -> Iterator[None]:
    """Hold the lock of a folder itself, which leaves no file behind.

    Windows cannot open folders: there an empty file in the folder is locked, and stays. ``is_halted`` is called while
    waiting and can end the wait; without it, only a signal handler that raises does. Raises InterruptedBake if the wait
    was ended, OSError if the folder cannot be opened.
    """
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    else:
        handle = os.open(folder / ".bakery-lock", os.O_CREAT | os.O_RDWR)
    try:
        if is_halted is None:
            lock(handle)
        while is_halted and not _try_lock(handle):
            if is_halted():
                raise InterruptedBake(f"interrupted while another run holds {folder}")
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        lock(handle, wait=False)
    except BlockingIOError:
        return False
    return True
