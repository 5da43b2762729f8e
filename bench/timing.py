"""What the benches share: times of processes, and a table of what was measured against its bar."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BAKERY = (sys.executable, "-P", "-m", "bakery")


@dataclass(frozen=True)
class Row:
    """One figure; with a bar it passes or fails."""

    name: str
    figure: str
    bar: str = ""
    passes: bool = True


@dataclass(frozen=True)
class Call:
    """A process and where it runs."""

    argv: Sequence[str]
    cwd: Path = ROOT
    environment: Mapping[str, str] = field(default_factory=dict)


def seconds(call: Call, limit_s: float | None = None) -> float | None:
    """Return the wall time of a process that must succeed; None when it takes longer than ``limit_s``."""
    # Python keeps what it compiled, as it does wherever nobody says otherwise.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    with subprocess.Popen(
        call.argv,
        cwd=call.cwd,
        env={**inherited, **call.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            _, said = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            # docker's plugins are processes of their own.
            os.killpg(process.pid, signal.SIGKILL)
            return None
    if process.returncode:
        sys.exit(f"{' '.join(call.argv[:6])} …: exit code {process.returncode}\n{said.decode()[-2000:]}")
    return time.perf_counter() - began


def medians(calls: Sequence[Call], times: int = 10) -> list[float]:
    """Return the median wall time of each process, after one run that is not counted; they take turns."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(times + 1):
        for call, own in zip(calls, taken, strict=True):
            own.append(seconds(call) or 0.0)
    return [statistics.median(own[1:]) for own in taken]


def table(title: str, rows: Sequence[Row]) -> int:
    """Print the figures; return the exit code: 1 when a bar is missed."""
    names, figures = (max(len(getattr(row, key)) for row in rows) for key in ("name", "figure"))
    print(title)
    for row in rows:
        verdict = f"  bar {row.bar}: {'pass' if row.passes else 'FAIL'}" if row.bar else ""
        print(f"  {row.name:<{names}}  {row.figure:>{figures}}{verdict}")
    return 0 if all(row.passes for row in rows) else 1
