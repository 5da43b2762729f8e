"""A program ends in time, with all that it started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from processes import is_running

from bakery.core.child import run
from bakery.core.environment import for_tool


def test_what_a_program_prints() -> None:
    ended = run(["sh", "-c", "echo out; echo error >&2; exit 3"], env=for_tool(), seconds=20, most=100)
    assert (ended.code, ended.output, ended.errors, ended.is_late, ended.is_long) == (
        3,
        b"out\n",
        b"error\n",
        False,
        False,
    )


@pytest.mark.parametrize(
    "script",
    [
        "sleep 60 & echo $! >pid; sleep 60",
        # Git alone was killed, and its child kept the pipe open: nothing ended.
        "sleep 60 & echo $! >pid; exit 0",
        "trap '' TERM INT HUP; sleep 60 & echo $! >pid; wait",
        "sleep 60 >&2 & echo $! >pid; exec >&-; wait",
    ],
)
def test_a_program_that_does_not_end_is_killed_with_what_it_started(tmp_path: Path, script: str) -> None:
    began = time.monotonic()
    ended = run(["sh", "-c", script], env=for_tool(), seconds=1.5, most=100, cwd=tmp_path)
    assert ended.is_late
    assert time.monotonic() - began < 8
    pid = int((tmp_path / "pid").read_text())
    while is_running(pid) and time.monotonic() - began < 20:
        time.sleep(0.05)
    assert not is_running(pid)


def test_a_program_that_left_its_group_is_not_waited_for() -> None:
    began = time.monotonic()
    ended = run(["sh", "-c", "setsid sleep 5 & exit 0"], env=for_tool(), seconds=0.5, most=100)
    assert ended.is_late
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("script", ["exec yes", "exec yes >&2", "yes & wait"])
def test_a_program_that_prints_without_end_is_killed(script: str) -> None:
    began = time.monotonic()
    ended = run(["sh", "-c", script], env=for_tool(), seconds=20, most=1 << 20)
    assert ended.is_long or len(ended.errors) > 1 << 20
    assert len(ended.output) <= (1 << 20) + 1
    assert time.monotonic() - began < 10
