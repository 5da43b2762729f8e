"""What memory the steps of a cell need, read from the engine's control groups while they run.

BuildKit runs each step in a control group of its own and tells no client which is whose: its
processes' environment does, as it holds the cell's build arguments. That can be read where the engine runs on this
machine and its processes may be looked at, which is root's right. Elsewhere nothing is known. (A BuildKit on control
groups v2 also notes peaks in its build history, pages of files among them.)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

EVERY_S = 1.0
"""Seconds between two looks."""

_GROUPS = ("memory/docker/buildkit/*", "docker/buildkit/*", "system.slice/system.slice:docker:*")
"""Where steps' groups are below the mount: version 1 (seen here), version 2 with Docker's driver cgroupfs, and with
systemd (moby#45796)."""


def is_here(environment: Mapping[str, str]) -> bool:
    """Say whether the engine that an environment leads to runs on this machine."""
    host = environment.get("DOCKER_HOST") or ""
    return host.startswith("unix://") or not (host or environment.get("DOCKER_CONTEXT"))


class Peaks:
    """Looks now and then how much memory steps hold, and keeps the most for each cell.

    Attributes:
        mb: cell → MB of memory of its own (not of files) that one of its steps held at its peak.
    """

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), processes: Path = Path("/proc")) -> None:
        self.mb: dict[str, int] = {}
        self._root = root
        self._processes = processes
        self._looked_at = float("-inf")

    def look(self, running: Mapping[str, Mapping[str, str]]) -> None:
        """Look, if it is time.

        Args:
            running: cell → its build arguments.
        """
        now = time.monotonic()
        if now - self._looked_at < EVERY_S:
            return
        self._looked_at = now
        for group in self._steps():
            held = _anonymous(group)
            if not held:
                continue
            environment = self._environment(group)
            for cell in _whose(environment, running):
                self.mb[cell] = max(self.mb.get(cell, 0), round(held / 1e6))

    def _steps(self) -> Iterator[Path]:
        for pattern in _GROUPS:
            yield from (path for path in self._root.glob(pattern) if path.is_dir())

    def _environment(self, group: Path) -> dict[str, str]:
        """Return the environment of a step's first process; empty where it may not be read."""
        with contextlib.suppress(OSError, IndexError):
            process = (group / "cgroup.procs").read_text().split()[0]
            words = (self._processes / process / "environ").read_bytes().split(b"\0")
            pairs = (word.decode(errors="replace").partition("=") for word in words)
            return {name: value for name, _, value in pairs}
        return {}


def _anonymous(group: Path) -> int:
    """Return the bytes that a group's processes hold; 0 where that cannot be read."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
        found = {words[0]: int(words[1]) for words in lines}
        return found.get("anon", found.get("total_rss", 0))
    return 0


def _whose(environment: Mapping[str, str], running: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    """Yield the cells whose build arguments a step's environment holds; several, where they share the step."""
    for cell, args in running.items():
        known = [name for name in args if name in environment]
        if known and all(environment[name] == args[name] for name in known):
            yield cell
