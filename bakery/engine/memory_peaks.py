"""Measures the memory of build steps: reads the engine's control groups while they run.

BuildKit does not tell which step runs in a control group, but the environment of the step's processes has the build
arguments of the cell. Reading it needs root and an engine on this machine; otherwise there are no measurements. (The
peaks of BuildKit's build history, with control groups v2, include file pages.)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

EVERY_S = 1.0
"""Seconds between two measurements."""

_FIRST = 8
"""Processes of a step that are read: its shell, and programs that the shell started."""

_GROUPS = ("memory/docker/buildkit/*", "docker/buildkit/*", "system.slice/system.slice:docker:*")
"""The groups of steps below the mount point: version 1, version 2 with Docker's driver cgroupfs, and version 2 with
systemd (moby#45796)."""


def is_here(environment: Mapping[str, str]) -> bool:
    """Whether the engine that an environment selects runs on this machine."""
    host = environment.get("DOCKER_HOST") or ""
    return host.startswith("unix://") or not (host or environment.get("DOCKER_CONTEXT"))


class Peaks:
    """The peak memory of each cell: `mb` has the most anonymous memory (without file pages) of one of its steps, in MB."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), processes: Path = Path("/proc")) -> None:
        self.mb: dict[str, int] = {}
        self._root = root
        self._processes = processes
        self._measured_at = float("-inf")

    def measure(self, running: Mapping[str, Mapping[str, str]]) -> None:
        """Measure running cells (cell → build arguments), unless the last measurement is less than `EVERY_S` ago."""
        now = time.monotonic()
        if now - self._measured_at < EVERY_S:
            return
        self._measured_at = now
        for group in self._steps():
            if size := _anonymous(group):
                for cell in _cells_of(self._environment(group), running):
                    self.mb[cell] = max(self.mb.get(cell, 0), round(size / 1e6))

    def _steps(self) -> Iterator[Path]:
        for pattern in _GROUPS:
            yield from (path for path in self._root.glob(pattern) if path.is_dir())

    def _environment(self, group: Path) -> dict[str, str]:
        """Return the environment of a step; empty if it cannot be read.

        A step that runs again with the repository gets SOURCE_DATE_EPOCH as no build argument: its programs have it, its
        first process does not.
        """
        environment: dict[str, str] = {}
        with contextlib.suppress(OSError):
            for process in (group / "cgroup.procs").read_text().split()[:_FIRST]:
                with contextlib.suppress(OSError):
                    words = (self._processes / process / "environ").read_bytes().split(b"\0")
                    pairs = (word.decode(errors="replace").partition("=") for word in words)
                    environment = {name: value for name, _, value in pairs} | environment
        return environment


def _anonymous(group: Path) -> int:
    """Return the anonymous memory of a group in bytes; 0 if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
        sizes = {words[0]: int(words[1]) for words in lines}
        return sizes.get("anon", sizes.get("total_rss", 0))
    return 0


def _cells_of(environment: Mapping[str, str], running: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    """Yield the cells whose build arguments are in a step's environment. Cells can share a step."""
    for cell, args in running.items():
        names = [name for name in args if name in environment]
        if names and all(environment[name] == args[name] for name in names):
            yield cell
