"""Wait for something that another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def command_lines() -> list[str]:
    """Return the command lines of all processes; those in containers are among them."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it is gone
            continue
    return lines


def wait_for(what: Callable[[], bool], seconds: float) -> bool:
    """Wait until something is so; say whether it came to it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.1)
    return what()
