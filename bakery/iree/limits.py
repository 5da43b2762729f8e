"""How much a container gets that works with arrays: room for what goes in, and for what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bakery.iree.sandbox import Limits

CALL_S = 300
"""Seconds that one call may take."""

ROOM = 1024**3
"""Bytes for results, beside what goes in."""

MEMORY = 4 * 1024**3
"""Bytes for a program, beside its files."""


def limits_for(files: Mapping[str, Path | bytes], seconds: int, *, cores: str = "") -> Limits:
    """Return limits with room for what goes in and what comes out."""
    size = sum(len(item) if isinstance(item, bytes) else item.stat().st_size for item in files.values())
    room = size + ROOM
    return Limits(memory=MEMORY + room, files=room, cores=cores, seconds=seconds, output=ROOM)
