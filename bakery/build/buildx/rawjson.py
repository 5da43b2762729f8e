"""One line of ``--progress=rawjson`` → typed records. Tolerant: what it does not know, it leaves out.

Each line is one SolveStatus object (BuildKit's client/graph.go); lines that are no JSON object are text
(``WARNING:``, a Dockerfile excerpt, ``ERROR:``), which buildx writes to the same stream.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bakery.core.json_data import decode_base64, tables

NEVER = "0001-01-01"
"""How Go writes a time that was not set."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """A node of the build graph as one line reports it.

    Attributes:
        digest: identifies it; the same node comes under several names.
        started: engine's clock in seconds since 1970, None when it has not started.
        completed: the same for its end.
        cached: it was not run because its result is known.
        error: why it failed, empty when it did not.
        has_inputs: it stands on other nodes. Of a layer that is pulled or unpacked late, a line tells without them.
    """

    digest: str
    name: str
    started: float | None = None
    completed: float | None = None
    cached: bool = False
    error: str = ""
    has_inputs: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """A piece of a step's output; it may end in the middle of a line or of a character."""

    vertex: str
    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning of the Dockerfile front end or of a step."""

    vertex: str
    short: str
    detail: tuple[str, ...] = ()
    url: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """What one line of the stream holds; ``text`` is set when it is no SolveStatus.

    Attributes:
        amounts: what is moved → how much of it was, in bytes.
    """

    vertices: tuple[Vertex, ...] = ()
    logs: tuple[Log, ...] = ()
    warnings: tuple[Warned, ...] = ()
    text: str = field(default="")
    amounts: Mapping[str, int] = field(default_factory=dict)


def decode(line: bytes) -> Line:
    """Return what ``line`` holds; never fails."""
    try:
        document: object = json.loads(line)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return Line(text=line.decode(errors="replace").rstrip("\r\n"))
    return Line(
        vertices=tuple(_vertex(item) for item in tables(document, "vertexes") if _text(item, "digest")),
        logs=tuple(_log(item) for item in tables(document, "logs") if _text(item, "vertex")),
        warnings=tuple(_warning(item) for item in tables(document, "warnings")),
        amounts={
            _text(item, "vertex") + _text(item, "id"): _number(item, "current") for item in tables(document, "statuses")
        },
    )


def _vertex(item: dict[str, object]) -> Vertex:
    return Vertex(
        digest=_text(item, "digest"),
        name=_text(item, "name"),
        started=_time(item, "started"),
        completed=_time(item, "completed"),
        cached=item.get("cached") is True,
        error=_text(item, "error"),
        has_inputs=bool(item.get("inputs")),
    )


def _log(item: dict[str, object]) -> Log:
    stream = item.get("stream")
    return Log(_text(item, "vertex"), stream if isinstance(stream, int) else 1, decode_base64(item.get("data")))


def _warning(item: dict[str, object]) -> Warned:
    detail = item.get("detail")
    lines = detail if isinstance(detail, list) else []
    return Warned(
        vertex=_text(item, "vertex"),
        short=decode_base64(item.get("short")).decode(errors="replace"),
        detail=tuple(decode_base64(entry).decode(errors="replace") for entry in lines),
        url=_text(item, "url"),
    )


def _text(item: dict[str, object], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


def _number(item: dict[str, object], key: str) -> int:
    value = item.get(key)
    return value if isinstance(value, int) else 0


def _time(item: dict[str, object], key: str) -> float | None:
    text = _text(item, key)
    if not text or text.startswith(NEVER):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
