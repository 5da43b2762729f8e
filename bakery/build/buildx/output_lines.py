"""Pieces of a step's output → clean lines, and the newest of them kept within bounds.

What a container prints is data: escape sequences and control characters are taken out before a line reaches
a terminal or a log, and of a line that redraws itself (carriage returns) only the last state is kept.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

LONGEST = 64 * 1024
"""Bytes after which a line without an end is cut."""

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(raw: bytes) -> str:
    """Return one line as text: the last state of it, without escape sequences and control characters."""
    states = [state for state in raw.split(b"\r") if state.strip()]
    text = states[-1].decode(errors="replace") if states else ""
    return _CONTROL.sub("", _ESCAPE.sub("", text)).rstrip()


@dataclass(slots=True)
class LineBuffer:
    """Joins the pieces of one stream into lines; holds at most `LONGEST` bytes."""

    _rest: bytes = b""

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that ``data`` completes."""
        *whole, rest = (self._rest + data).split(b"\n")
        # A progress bar redraws one line for hours: only its last state is worth keeping.
        head, _, last = rest.rpartition(b"\r")
        if head:
            rest = last if last else head.rpartition(b"\r")[2] + b"\r"
        if len(rest) > LONGEST:
            whole.append(rest)
            rest = b""
        self._rest = rest
        return [clean(line) for line in whole]

    def flush(self) -> list[str]:
        """Return the unfinished line, if there is one."""
        rest, self._rest = self._rest, b""
        return [clean(rest)] if rest.strip() else []

    @property
    def unfinished(self) -> str:
        """The line that is being written: what a progress bar shows now."""
        return clean(self._rest)


@dataclass(slots=True)
class Output:
    """The output of one step: whole lines as they come, and the newest kept."""

    max_lines: int
    tail: deque[str] = field(init=False)
    _streams: dict[int, LineBuffer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tail = deque(maxlen=self.max_lines)

    def feed(self, stream: int, data: bytes) -> tuple[list[str], str]:
        """Return the lines that ``data`` completes, and the line that is being written (may be empty)."""
        buffer = self._streams.setdefault(stream, LineBuffer())
        lines = buffer.feed(data)
        self.tail.extend(lines)
        return lines, buffer.unfinished

    def flush(self) -> list[str]:
        """Return what was left without a line's end."""
        lines = [line for buffer in self._streams.values() for line in buffer.flush()]
        self.tail.extend(lines)
        return lines
