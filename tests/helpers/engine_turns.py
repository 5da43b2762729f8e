"""Turns at the engine: tests bake beside each other, and what counts repeated steps can bake alone."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDER = Path(tempfile.gettempdir()) / f"bakery-tests-{os.getuid()}"

_held: list[int] = []
"""The descriptor of this process's turn, while a test has one."""


def _open(name: str) -> int:
    _FOLDER.mkdir(mode=0o700, exist_ok=True)
    return os.open(_FOLDER / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextmanager
def beside_others() -> Iterator[None]:
    """Run a test that may bake beside others; wait while one bakes alone, or waits for that."""
    door, turn = _open("door"), _open("turn")
    try:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(turn, fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        _held.append(turn)
        yield
    finally:
        _held.clear()
        os.close(turn)
        os.close(door)


@contextmanager
def alone() -> Iterator[None]:
    """Within a test, wait until all others have ended, and keep new ones out."""
    (turn,) = _held
    # Two that want to be alone must not wait for each other.
    fcntl.flock(turn, fcntl.LOCK_UN)
    door = _open("door")
    try:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(turn, fcntl.LOCK_SH)
        os.close(door)
