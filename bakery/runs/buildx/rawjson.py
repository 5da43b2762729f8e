"""``--progress=rawjson`` → typed records, vertex names taken apart, clean lines of output. Unknown fields are ignored.

Each line is one SolveStatus object (BuildKit's client/graph.go); lines that are no JSON object are text (``WARNING:``, a
Dockerfile excerpt, ``ERROR:``), which buildx writes to the same stream. What a container prints is data: escape sequences
and control characters are removed before a line reaches a terminal or a log, and those in names of steps escaped.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import IO, TypeVar

from bakery.core.text import decode_base64, tables
from wheel_audit.readers import json_of
from wheel_audit.text import printable

T = TypeVar("T")

NEVER = "0001-01-01"
"""How Go writes a time that was not set."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """A node of the build graph as one line reports it.

    Attributes:
        digest: identifies it; the same node comes with several names.
        started: the engine's clock in seconds since 1970; None before the start. ``completed`` likewise.
        inputs: digests of the nodes that it depends on; none in reports about a layer that is pulled or unpacked late.
    """

    digest: str
    name: str
    started: float | None = None
    completed: float | None = None
    cached: bool = False
    error: str = ""
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Log:
    """A piece of a step's output; it may end in the middle of a line or of a character."""

    vertex: str
    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the stream; ``text`` if it is no SolveStatus; ``amounts``: transfer → bytes so far."""

    vertices: tuple[Vertex, ...] = ()
    logs: tuple[Log, ...] = ()
    text: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)


def decode(line: bytes) -> Line:
    """Return the content of ``line``; never fails."""
    try:
        document: object = json_of(line)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return Line(text=_clean_text(line.decode(errors="replace").rstrip("\r\n")))
    return Line(
        vertices=tuple(_vertex(item) for item in tables(document, "vertexes") if _get(item, "digest", "")),
        logs=tuple(_log(item) for item in tables(document, "logs") if _get(item, "vertex", "")),
        amounts={
            _get(item, "vertex", "") + _get(item, "id", ""): _get(item, "current", 0)
            for item in tables(document, "statuses")
        },
    )


def _vertex(item: dict[str, object]) -> Vertex:
    return Vertex(
        digest=_get(item, "digest", ""),
        name=_clean_text(_get(item, "name", "")),
        started=_time(item, "started"),
        completed=_time(item, "completed"),
        cached=item.get("cached") is True,
        error=_clean_text(_get(item, "error", "")),
        inputs=_texts(item.get("inputs")),
    )


def _log(item: dict[str, object]) -> Log:
    return Log(_get(item, "vertex", ""), _get(item, "stream", 1), decode_base64(item.get("data")))


def _clean_text(text: str) -> str:
    """Return text, of any number of lines, with all other control characters escaped."""
    return printable(text, keep="\n\t")


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def _get(item: dict[str, object], key: str, default: T) -> T:
    value = item.get(key)
    return value if isinstance(value, type(default)) else default


def _time(item: dict[str, object], key: str) -> float | None:
    text = _get(item, key, "")
    if not text or text.startswith(NEVER):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


_BRACKET = re.compile(r"\[(?P<head>[^\]]*)\] ?(?P<text>.*)", re.DOTALL)
_FLAGS = re.compile(r"(?<=^RUN )(?:--\S+\s+)+")
"""Mounts and network of a step: users see them in the file."""

_CACHE = re.compile(r"(?:importing|exporting) .*\bcache\b|exporting .*\bs3\b", re.IGNORECASE)
"""What BuildKit calls the reading and writing of layer caches, one text for each kind."""

_INDEX = re.compile(r"(?P<at>\d+)/(?P<of>\d+)\Z")


class Role(StrEnum):
    """The purpose of a vertex."""

    STEP = "step"
    EXPORT = "export"
    CACHE = "cache"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Label:
    """The parts of a vertex name.

    Attributes:
        target: the bake target; empty if the name has none, as for ``stage``.
        index: ``3/5``; empty if it is no step.
        text: the first line of the rest, without the flags of RUN.
    """

    target: str
    role: Role
    stage: str
    index: str
    text: str

    @property
    def title(self) -> str:
        """The name that users see: ``[compile 3/5] RUN make``, without the target."""
        head = f"{self.stage} {self.index}".strip()
        return f"[{head}] {self.text}" if head else self.text


def parse(name: str, targets: Collection[str]) -> Label:
    """Return the parts of a vertex name; ``targets`` are the names that may come first in the brackets.

    ``[wheel-cp312 linux/arm64 compile 3/5] RUN make`` has the target only if buildx builds several, and the platform
    only if the target has several.
    """
    match = _BRACKET.match(name)
    words = match["head"].split() if match else []
    first_line = (match["text"] if match else name).strip().partition("\n")[0]
    text = " ".join(_FLAGS.sub("", first_line).split())
    target = words.pop(0) if words and words[0] in targets else ""
    if words and _INDEX.match(words[-1]):
        return Label(target, Role.STEP, " ".join(words[:-1]), words[-1], text)
    if not words and _CACHE.match(text):
        return Label(target, Role.CACHE, "", "", text)
    if text.startswith("exporting to ") and not words:
        return Label(target, Role.EXPORT, "", "", text)
    return Label(target, Role.INTERNAL, " ".join(words), "", text)


TIMED = "bakery: timed "
"""The beginning of a line of ``count-ccache`` with the time of a command: for ``profile``, not for people."""

MAX_TAIL_LINES = 200
MAX_TIMED = 5000
MAX_LINE_BYTES = 64 * 1024
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(raw: bytes) -> str:
    """Return a line as text: its last state after carriage returns, without escape sequences and control characters."""
    states = [state for state in raw.split(b"\r") if state.strip()]
    text = states[-1].decode(errors="replace") if states else ""
    return printable(_CONTROL.sub("", _ESCAPE.sub("", text)), keep="\t").rstrip()


@dataclass(slots=True)
class LineBuffer:
    """Joins the pieces of one stream into lines; holds at most `MAX_LINE_BYTES` bytes."""

    _rest: bytes = b""

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that ``data`` completes."""
        *whole, rest = (self._rest + data).split(b"\n")
        # A progress bar redraws one line for hours: only its last state is worth keeping.
        head, _, last = rest.rpartition(b"\r")
        if head:
            rest = last if last else head.rpartition(b"\r")[2] + b"\r"
        if len(rest) > MAX_LINE_BYTES:
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
        """The unfinished line, such as the current state of a progress bar."""
        return clean(self._rest)


def lines_of(pipe: IO[bytes]) -> Iterator[str]:
    """Yield the lines that a program prints, clean and of bounded length, as they come."""
    buffer = LineBuffer()
    while data := os.read(pipe.fileno(), 65536):
        yield from buffer.feed(data)
    yield from buffer.flush()


@dataclass(slots=True)
class Output:
    """The output of one step; the newest lines are kept in ``tail``, those with times of commands only in ``timed``."""

    tail: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_TAIL_LINES))
    timed: list[str] = field(default_factory=list)
    _streams: dict[int, LineBuffer] = field(default_factory=dict)

    def feed(self, stream: int, data: bytes) -> tuple[list[str], str]:
        """Return the lines that ``data`` completes, and the unfinished line (may be empty)."""
        buffer = self._streams.setdefault(stream, LineBuffer())
        lines = self._keep(buffer.feed(data))
        return lines, "" if buffer.unfinished.startswith(TIMED) else buffer.unfinished

    def flush(self) -> list[str]:
        """Return the unfinished lines."""
        return self._keep([line for buffer in self._streams.values() for line in buffer.flush()])

    def _keep(self, lines: list[str]) -> list[str]:
        """Keep lines; return those to show."""
        timed = [line for line in lines if line.startswith(TIMED)]
        self.timed += timed[: MAX_TIMED - len(self.timed)]
        shown = [line for line in lines if not line.startswith(TIMED)] if timed else lines
        self.tail.extend(shown)
        return shown
