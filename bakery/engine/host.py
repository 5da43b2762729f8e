"""This machine: its memory and CPU, the kernel features that dockerd needs, and the mounts that a killed one leaves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from bakery.core import child
from bakery.core.environment import for_tool
from bakery.core.errors import EngineError
from bakery.engine.debian_packages import Progress

CGROUP = Path("/sys/fs/cgroup")


def prepare(progress: Progress) -> None:
    """Mount the control groups if needed. Raises EngineError if the kernel lacks a feature or refuses the mount."""
    filesystems = Path("/proc/filesystems").read_text().split()
    for name in ("overlay", "cgroup2"):
        if name not in filesystems and run_tool(["modprobe", name]) is not None:
            raise EngineError(f"this kernel has no {name}", hint="use a kernel with overlayfs and control groups")
    if not has_cgroups(CGROUP):
        progress("mounting control groups")
        CGROUP.mkdir(parents=True, exist_ok=True)
        if (errors := run_tool(["mount", "-t", "cgroup2", "cgroup2", str(CGROUP)])) is not None:
            raise EngineError("cannot mount control groups", hint="run as root", details=errors)


def has_cgroups(root: Path) -> bool:
    """Whether control groups are mounted: version 2, or version 1 with the devices controller."""
    return (root / "cgroup.controllers").is_file() or (root / "devices" / "tasks").is_file()


def run_tool(command: Sequence[str]) -> list[str] | None:
    """Run a system tool. Return None if it succeeds, otherwise the lines of its error output."""
    try:
        done = child.completed(command, env=for_tool())
    except OSError as error:
        return [str(error)]
    return done.stderr.splitlines() if done.returncode else None


def memory() -> int:
    """Return the memory of this machine in bytes; 0 if it is unknown."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return 0
    match = re.search(r"(?m)^MemTotal: +([0-9]+) kB", text)
    return int(match[1]) * 1024 if match else 0


def unmount_below(folder: Path) -> None:
    """Unmount everything at or below a folder: a killed dockerd leaves its data root and containers mounted.

    Raises EngineError if something is still in use.
    """
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    # The kernel writes a space in a path as an octal escape.
    points = [Path(line.split()[4].replace("\\040", " ")) for line in lines]
    # Deepest and latest first: mountinfo lists mounts in the order in which they were made.
    for point in reversed([point for point in points if point.is_relative_to(folder.resolve())]):
        if (errors := run_tool(["umount", str(point)])) is not None:
            raise EngineError(f"cannot unmount {point}", hint="end what uses it and try again", details=errors)


def cpu() -> str:
    """Return the model and the features of this machine's CPU, as Linux names them."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "flags", "CPU implementer", "CPU part", "Features"):
            fields.setdefault(key.strip(), value.strip())
    return "\n".join(f"{key}: {value}" for key, value in sorted(fields.items()))
