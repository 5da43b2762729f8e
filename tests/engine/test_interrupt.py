"""Ctrl-C and SIGTERM in the middle of a compile."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Done, bakery, finish, journals, start, states
from projects import SOURCE, extension
from runs import runs_of
from waiting import command_lines, wait_for

pytestmark = pytest.mark.engine

PATIENCE_S = 15


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a project whose compile step sleeps as long as a file ``sleep`` is beside its source."""
    project = tmp_path / "project"
    # The number tells this test's sleep from any other's.
    setup = (
        "import pathlib, subprocess\n"
        "if pathlib.Path('sleep').exists():\n"
        f"    print('now sleeping', flush=True)\n    subprocess.run(['sleep', '{nap()}'], check=True)\n"
    )
    extension(project, 'name = "tiny"\n', SOURCE, setup=setup)
    (project / "sleep").touch()
    (project / "dist").mkdir()
    (project / "dist" / "earlier-1.0-py3-none-any.whl").write_bytes(b"earlier")
    return project


def nap() -> str:
    """Return seconds that no other process sleeps."""
    return f"86400.{os.getpid()}"


def left(folder: Path) -> list[str]:
    """Return what still runs of a bake in a folder."""
    return [
        line
        for line in command_lines()
        if str(folder) in line or str(runs_of(folder)) in line or f"sleep {nap()}" in line
    ]


def asleep() -> bool:
    """Whether the compile step sleeps."""
    return any(f"sleep {nap()}" in line for line in command_lines())


def interrupted(folder: Path, *signals: signal.Signals) -> Done:
    """Bake until the compile step sleeps, send signals half a second apart, and wait for the end."""
    child = start(folder, "wheel")
    wait_for(lambda: asleep() or child.poll() is not None, 300)
    sleeping = asleep()
    if not sleeping:
        child.terminate()
    began = time.monotonic()
    for number, sent in enumerate(signals):
        time.sleep(0.5 if number else 0)
        child.send_signal(sent)
    done = finish(child, folder, began, 60)
    assert sleeping, done.err
    return done


@pytest.mark.parametrize(
    "signals",
    [
        pytest.param((signal.SIGINT,), id="ctrl-c"),
        pytest.param((signal.SIGTERM,), id="sigterm", marks=pytest.mark.proof),
        pytest.param((signal.SIGINT, signal.SIGINT), id="ctrl-c-twice", marks=pytest.mark.proof),
    ],
)
def test_signal_ends_the_build_and_leaves_dist_as_it_was(folder: Path, signals: tuple[signal.Signals, ...]) -> None:
    before = states(folder / "dist")
    done = interrupted(folder, *signals)
    assert done.code == 130, done.err
    assert done.seconds < PATIENCE_S
    assert f"interrupted: interrupted by {signals[0].name}" in done.err
    assert states(folder / "dist") == before
    assert done.wheels == []
    # The engine needs a moment to end what ran in the container.
    assert wait_for(lambda: not left(folder), 10), left(folder)
    (folder / "sleep").unlink()
    again = bakery(folder, "wheel")
    assert len(again.wheels) == 1
    assert len(states(folder / "dist")) == 2


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder: a bake that needs it waits."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def waits_for_a_lock(folder: Path, pid: int) -> bool:
    """Whether a process has opened the folder of runs, whose lock is held."""
    with contextlib.suppress(OSError):
        return any(path.resolve() == runs_of(folder) for path in Path(f"/proc/{pid}/fd").iterdir())
    return False


def is_finished(folder: Path, _pid: int) -> bool:
    """Whether the journal says that a cell is done: it is published next."""
    return any('"result": "done"' in path.read_text() for path in journals(folder, "tiny"))


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        pytest.param("runs", signal.SIGTERM, id="before-the-bake"),
        pytest.param("dist", signal.SIGTERM, id="before-publishing"),
        pytest.param("runs", signal.SIGINT, id="before-the-bake-ctrl-c", marks=pytest.mark.proof),
        pytest.param("dist", signal.SIGINT, id="before-publishing-ctrl-c", marks=pytest.mark.proof),
    ],
)
def test_signal_before_and_after_the_build(folder: Path, moment: str, number: signal.Signals) -> None:
    (folder / "sleep").unlink()
    before = states(folder / "dist")
    with held(runs_of(folder) if moment == "runs" else folder / moment):
        child = start(folder, "wheel")
        waits = is_finished if moment == "dist" else waits_for_a_lock
        waiting = wait_for(lambda: waits(folder, child.pid) or child.poll() is not None, 300)
        child.send_signal(number)
        done = finish(child, folder, time.monotonic(), PATIENCE_S)
    assert waiting
    assert done.code == 130, done.err
    assert "interrupted" in done.err
    assert states(folder / "dist") == before
    assert not left(folder)
    assert not list(runs_of(folder).glob("*/stage"))
