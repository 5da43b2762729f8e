"""This machine: its memory and CPU, what dockerd needs, and what a killed dockerd leaves behind."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from bakery.core.errors import EngineError
from bakery.engine.debian_packages import Progress

CGROUP = Path("/sys/fs/cgroup")


def prepare(progress: Progress) -> None:
    """Mount the control groups if they are not mounted. dockerd itself sets up forwarding and its bridge.

    Raises EngineError if the kernel lacks a feature, or the mount is refused.
    """
    filesystems = Path("/proc/filesystems").read_text().split()
    for name in ("overlay", "cgroup2"):
        if name not in filesystems and not _load(name):
            raise EngineError(f"this kernel has no {name}", hint="use a kernel with overlayfs and control groups")
    if not has_cgroups(CGROUP):
        progress("mounting control groups")
        _mount_cgroups()


def has_cgroups(root: Path) -> bool:
    """Whether control groups are mounted: version 2, or version 1 with the devices controller."""
    return (root / "cgroup.controllers").is_file() or (root / "devices" / "tasks").is_file()


def _load(module: str) -> bool:
    """Load a kernel module; return whether that worked."""
    try:
        done = subprocess.run(["modprobe", module], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def _mount_cgroups() -> None:
    """Mount version 2 of the control groups. Raises EngineError if the mount is refused."""
    CGROUP.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "cgroup2", "cgroup2", str(CGROUP)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EngineError("cannot mount control groups", hint="run as root", details=done.stderr.splitlines())


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
    # Deepest and latest first: mountinfo lists mounts in the order in which they were made.
    points = [point for point in _mount_points() if point.is_relative_to(folder.resolve())]
    for point in reversed(points):
        done = subprocess.run(
            ["umount", str(point)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            hint = "end what uses it and try again"
            raise EngineError(f"cannot unmount {point}", hint=hint, details=done.stderr.splitlines())


def _mount_points() -> list[Path]:
    """Return all mount points, in the order of mounting."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    # The kernel writes a space in a path as an octal escape.
    return [Path(line.split()[4].replace("\\040", " ")) for line in lines]


def cpu() -> str:
    """Return the model and the features of this machine's CPU, as Linux names them."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "flags", "CPU implementer", "CPU part", "Features"):
            fields.setdefault(key.strip(), value.strip())
    return "\n".join(f"{key}: {value}" for key, value in sorted(fields.items()))
