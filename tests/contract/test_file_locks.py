"""Waits for locks end with the command's time or a signal, and say who holds the lock."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bakery.core import file_locks
from bakery.core.errors import BakeError, InterruptedBake
from bakery.core.file_locks import WAITING, Waiting, halted_by, locked_file, locked_folder

Lock = Callable[[Path], AbstractContextManager[None]]
_HOLD = "import fcntl, os, sys; h = os.open(sys.argv[1], os.O_RDONLY); fcntl.flock(h, 2); print(flush=True); input()"


@pytest.fixture(params=["folder", "file"])
def held(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Lock, Path, int]]:
    """A lock, its path, and the process that holds it."""
    lock, path = (locked_folder, tmp_path) if request.param == "folder" else (locked_file, tmp_path / ".lock")
    if request.param == "file":
        path.touch()
    words = [sys.executable, "-c", _HOLD, str(path)]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    yield lock, path, child.pid
    child.communicate(b"\n")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = Waiting(WAITING.deadline, WAITING.signal, WAITING.say)
    yield
    WAITING.deadline, WAITING.signal, WAITING.say = before.deadline, before.signal, before.say


def test_a_wait_ends_with_the_time_of_the_command(held: tuple[Lock, Path, int]) -> None:
    lock, path, holder = held
    began = time.monotonic()
    WAITING.deadline = began + 0.2
    with pytest.raises(InterruptedBake, match="time limit was reached") as caught, lock(path):
        pass
    assert time.monotonic() - began < 5
    assert caught.value.exit_code == BakeError.exit_code
    assert f"process {holder} (" in caught.value.message
    assert str(path) in caught.value.message


def test_a_wait_ends_with_a_signal(held: tuple[Lock, Path, int]) -> None:
    lock, path, _ = held
    with (
        halted_by(lambda: "SIGINT"),
        pytest.raises(InterruptedBake, match="interrupted by SIGINT") as caught,
        lock(path),
    ):
        pass
    assert caught.value.exit_code == 130
    assert WAITING.signal() == ""


def test_a_long_wait_is_said_once(held: tuple[Lock, Path, int], monkeypatch: pytest.MonkeyPatch) -> None:
    lock, path, holder = held
    said: list[str] = []
    monkeypatch.setattr(file_locks, "PATIENCE_S", 0.1)
    WAITING.say, WAITING.deadline = said.append, time.monotonic() + 0.5
    with pytest.raises(InterruptedBake), lock(path):
        pass
    assert len(said) == 1
    assert said[0].startswith(f"waiting for process {holder} (")
    assert said[0].endswith(f"holds the lock of {path}")


def test_a_free_lock_is_taken_after_the_end_of_the_time(tmp_path: Path) -> None:
    WAITING.deadline = time.monotonic() - 1
    with locked_folder(tmp_path), locked_file(tmp_path / "a" / ".lock"):
        assert [path.name for path in tmp_path.iterdir()] == ["a"]
