"""How cells are called, and the platforms in their names.

A cell id such as ``cp312-cu128-linux_x86_64`` names the bake target, the log, the stage folder, the CI job and the row of
every table. The rules for ids are here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from wheel_audit.text import listed

MACHINES = {
    "linux/amd64": "x86_64",
    "linux/arm64": "aarch64",
    "macos/amd64": "x86_64",
    "macos/arm64": "arm64",
    "windows/amd64": "amd64",
    "windows/arm64": "arm64",
}
"""Platform → the machine in wheel tags."""


_SYSTEM_TAGS = {"linux": "manylinux", "macos": "macosx", "windows": "win"}


IDENTIFIERS = {
    platform: f"{_SYSTEM_TAGS[platform.partition('/')[0]]}_{machine}" for platform, machine in MACHINES.items()
}
"""Platform → cibuildwheel's name for it."""


_AXIS_PREFIX = {"python": "cp", "cuda": "cu"}


def some_cells(ids: Sequence[str]) -> str:
    """Return the first few ids, and the number of the others."""
    return listed(ids, noun="cell")


def python_tag(version: str) -> str:
    """Return the interpreter tag of a Python version: ``3.12`` → ``cp312``, ``3.13t`` → ``cp313t``."""
    return "cp" + version.replace(".", "")


def axis_tag(axis: str, value: str, *, short: bool = True) -> str:
    """Return how ``value`` of ``axis`` is written in a cell id: versions without dots, ``12.8.0`` as ``cu1280``.

    With ``short``, a third component is omitted (``cu128``): for axes whose values then stay different.
    """
    if axis == "python":
        return python_tag(value)
    parts = value.split(".")
    is_version = all(part.isascii() and part.isdigit() for part in parts)
    if is_version:
        text = "".join(parts[:2] if short else parts)
    else:
        text = re.sub(r"[^A-Za-z0-9]+", "_", value).strip("_") or "x"
    return _AXIS_PREFIX.get(axis, axis.replace("-", "_")) + text


def axis_tags(axis: str, values: Sequence[str], *, long: bool = False) -> dict[str, str]:
    """Return value of an axis → how it is written in ids: as short as the values stay different; with ``long``, as long."""
    tags = [{value: axis_tag(axis, value, short=short) for value in values} for short in (not long, long)]
    distinct = (item for item in tags if len(set(item.values())) == len(values))
    return next(distinct, tags[0 if long else 1])


def platform_tag(platform: str) -> str:
    """Return how a platform is written in a cell id: ``linux/amd64`` → ``linux_x86_64``, others as cibuildwheel does."""
    return f"linux_{MACHINES[platform]}" if platform.startswith("linux/") else IDENTIFIERS[platform]


def is_baked(platform: str) -> bool:
    """Whether wheels of a platform are baked: those of Linux."""
    return platform.startswith("linux/")


def platform_of(machine: str) -> str:
    """Return the platform of Linux for a machine as the kernel or the engine calls it: ``x86_64``, ``arm64``, …"""
    return "linux/arm64" if machine in ("aarch64", "arm64") else "linux/amd64"
