"""Limits of containers, and those for programs that work with arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CALL_S = 300
"""Seconds that one call may take."""

RESULTS = 1024**3
"""Bytes for results."""

MEMORY = 4 * 1024**3
"""Bytes of memory for a program, besides its files."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a container.

    Attributes:
        memory: bytes, of the program and of its files together.
        files: bytes of its files: inputs, and those that it writes.
        processes: processes and threads.
        cores: CPU cores that it may use, as ``0-3,6``; empty for all.
        seconds: run time of the program.
        output: bytes of its output files.
    """

    memory: int = 4 * 1024**3
    files: int = 2 * 1024**3
    processes: int = 256
    cores: str = ""
    seconds: int = 600
    output: int = 1024**3


def limits_for(files: Mapping[str, Path | bytes], seconds: int, *, cores: str = "") -> Limits:
    """Return limits with space for input files and results."""
    inputs = sum(len(item) if isinstance(item, bytes) else item.stat().st_size for item in files.values())
    space = inputs + RESULTS
    return Limits(memory=MEMORY + space, files=space, cores=cores, seconds=seconds, output=RESULTS)
