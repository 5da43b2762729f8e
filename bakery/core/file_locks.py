"""Locks between processes, on every system. A lock is released when its process ends.

filelock is not used: it locks files, not folders, so it would leave a lock file in each output folder.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bakery.core.errors import BakeError, InterruptedBake

_PAUSE_S = 0.05
"""Seconds between two attempts to get a lock that another process holds."""

PATIENCE_S = 1.0
"""Seconds that a process waits for a lock without a word."""


@dataclass(slots=True)
class Waiting:
    """How this process waits for locks, in all of its threads: as its signals and its time limit, it is one for all.

    Attributes:
        deadline: when the command's time is over, by the monotonic clock; None for no limit.
        signal: returns the name of the signal that ended the run; empty for none, or if a handler raises.
        say: receives a line about a wait that takes longer than `PATIENCE_S`.
    """

    deadline: float | None = None
    signal: Callable[[], str] = lambda: ""
    say: Callable[[str], None] = lambda _: None


WAITING = Waiting()


@contextmanager
def halted_by(signal: Callable[[], str]) -> Iterator[None]:
    """Within it, waits for locks end when ``signal`` returns a name."""
    before, WAITING.signal = WAITING.signal, signal
    try:
        yield
    finally:
        WAITING.signal = before


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Hold the lock of a file; create it and its folders if needed.

    Raises OSError if it cannot be created, and InterruptedBake if the wait was ended (`Waiting`).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Who could open it could hold its lock.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with suppress(OSError):
            path.chmod(0o600)
        _wait(handle, path)
        yield
    finally:
        os.close(handle)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder itself, which leaves no file behind.

    Windows cannot open folders: there an empty file in the folder is locked, and stays. Raises OSError if the folder
    cannot be opened, and InterruptedBake if the wait was ended (`Waiting`).
    """
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    else:
        handle = os.open(folder / ".bakery-lock", os.O_CREAT | os.O_RDWR)
    try:
        _wait(handle, folder)
        yield
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Lock an open file or, not on Windows, folder; return whether no other process holds its lock."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _wait(handle: int, path: Path) -> None:
    began, is_said = time.monotonic(), False
    while not try_lock(handle):
        now = time.monotonic()
        if name := WAITING.signal():
            raise InterruptedBake(f"interrupted by {name} while {_holder(handle)} holds the lock of {path}")
        if WAITING.deadline is not None and now >= WAITING.deadline:
            raise InterruptedBake(
                f"the time limit was reached while {_holder(handle)} holds the lock of {path}",
                hint="allow more time with --timeout; finished cells are kept",
                exit_code=BakeError.exit_code,
                title=BakeError.title,
            )
        if not is_said and now - began >= PATIENCE_S:
            is_said = True
            WAITING.say(f"waiting for {_holder(handle)}, which holds the lock of {path}")
        time.sleep(_PAUSE_S)


def _holder(handle: int) -> str:
    """Return who holds the lock of an open file, in words. The kernel lists locks by device and inode (proc_locks(5))."""
    status = os.fstat(handle)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        rows = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
        holder = next(row[4] for row in rows if row[1] == "FLOCK" and row[5] == file)
        words = Path(f"/proc/{int(holder)}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, StopIteration, IndexError):
        return "another process"
    command = " ".join(os.fsdecode(word).rpartition("/")[2] for word in words if word)
    return f"process {holder} ({command[:60]})"
