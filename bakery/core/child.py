"""Runs programs: `run` one of which strangers decide how long it takes and what it prints, `completed` one of this machine."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from wheel_audit.environment import CleanEnvironment

_MOST_ERRORS = 1 << 20
_MEMORY = 512 << 20
"""Bytes of a program whose time of a processor is limited."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: what it printed, and whether it was killed because it took or printed too much."""

    code: int
    output: bytes
    errors: bytes
    is_late: bool
    is_long: bool


def run(  # noqa: PLR0913
    argv: Sequence[str],
    *,
    env: CleanEnvironment,
    seconds: float,
    most: int,
    cwd: Path | None = None,
    patience: float = math.inf,
    is_stuck: Callable[[], bool] = lambda: False,
    busy: int = 0,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
) -> Ended:
    """Run a program for at most ``seconds``; its standard output may have ``most`` bytes.

    After ``patience`` seconds, ``is_stuck`` says whether to wait any longer. ``busy``: seconds of a processor that it may
    take, and then also `_MEMORY`, where the system can limit them; 0 for any. ``stdin``: a file with its input. It is
    late, too, if a program that it started keeps its output open. Raises OSError or ValueError if it cannot be started.
    """
    process = subprocess.Popen(
        argv, cwd=cwd, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    if busy:
        _limit(process.pid, busy)
    printed, is_done = [b"", b""], False

    def read(index: int, pipe: IO[bytes], largest: int) -> None:
        with pipe:
            printed[index] = pipe.read(largest + 1)
        if len(printed[index]) > largest:
            process.kill()

    assert process.stdout is not None
    assert process.stderr is not None
    pipes = ((0, process.stdout, most), (1, process.stderr, _MOST_ERRORS))
    threads = [threading.Thread(target=read, args=item, daemon=True) for item in pipes]
    end = (began := time.monotonic()) + min(seconds, patience)
    try:
        for thread in threads:
            thread.start()
        is_read = _join(threads, end)
        if not is_read and not is_stuck():
            end = began + seconds
            is_read = _join(threads, end)
        if is_read:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
                is_done = True
    finally:
        if hasattr(os, "killpg"):
            kill_group(process.pid)
        else:
            process.kill()
        code = process.wait()
        for thread in filter(threading.Thread.is_alive, threads):
            thread.join(1)  # until all that it started is gone, unless it left the group
    is_late = not is_done or (sys.platform == "linux" and code == -signal.SIGXCPU)
    return Ended(code, printed[0], printed[1], is_late, len(printed[0]) > most)


def completed(
    argv: Sequence[str], *, env: CleanEnvironment, cwd: Path | None = None, seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of this machine to its end, without input; in its output, what is no UTF-8 is replaced.

    Raises OSError if it cannot be started, and subprocess.TimeoutExpired.
    """
    return subprocess.run(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=seconds,
    )


def _join(threads: Sequence[threading.Thread], end: float) -> bool:
    """Wait for threads until a moment; return whether all have ended."""
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def _limit(process: int, busy: int) -> None:
    """Limit the seconds of a processor and the memory of a process that has just begun."""
    if sys.platform == "linux":
        with contextlib.suppress(ImportError, OSError):
            import resource

            resource.prlimit(process, resource.RLIMIT_CPU, (busy, busy + 1))
            resource.prlimit(process, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))


def kill_group(group: int) -> None:
    """Kill the processes of a group; none is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
