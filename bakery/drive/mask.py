"""Hides secrets in what steps print: the stream of a bake goes through here before anything sees it.

What is hidden are the values themselves, line by line, and the forms that tools give them: base64 (also inside of a
longer text, as in an Authorization header), percent-encoding, JSON. A step that is out to show a secret can.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping

SHORTEST = 4
"""Characters that a value, or a line of one, has at least to be hidden: shorter ones are in every other word."""

HELD = 64 * 1024
"""Bytes of a line without an end that are held back at most."""

_HIDDEN = b"***"
_WRAPPED = 76
"""Characters after which ``base64`` breaks a line."""

_LINE_END = re.compile(rb"[\r\n]")


class Mask:
    """What to hide; false where there is nothing.

    Attributes:
        longest: bytes of the longest text that is hidden.
    """

    def __init__(self, values: Mapping[str, bytes]) -> None:
        """Take name → value."""
        names = {form: name for name, value in values.items() for form in _forms(value)}
        # The longest first: where one is a part of another, nothing of the other is left to be seen.
        self._names = dict(sorted(names.items(), key=lambda pair: (-len(pair[0]), pair[0])))
        self.longest = max(map(len, self._names), default=0)

    def __bool__(self) -> bool:
        return bool(self._names)

    def hide(self, data: bytes) -> bytes:
        """Return ``data`` without what is to be hidden."""
        for form in [form for form in self._names if form in data]:
            data = data.replace(form, _HIDDEN)
        return data

    def told_by(self, data: bytes) -> set[str]:
        """Return the names of the secrets that ``data`` tells."""
        return {name for form, name in self._names.items() if form in data}


def _forms(value: bytes) -> Iterator[bytes]:
    """Yield what tells a value: each of its lines, as it is and quoted; and all of it in base64."""
    bare = value.strip()
    for line in dict.fromkeys((value, bare, *(line.strip() for line in bare.splitlines()))):
        yield from _plain(line)
    for text in dict.fromkeys((value, bare)):
        yield from _base64(text)


def _plain(value: bytes) -> Iterator[bytes]:
    text = value.decode(errors="surrogateescape")
    quoted = (urllib.parse.quote_from_bytes(value, safe=""), urllib.parse.quote_from_bytes(value))
    spelled = [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]]
    # JSON inside of JSON, or inside of a program's text.
    spelled += [json.dumps(item)[1:-1] for item in spelled]
    for form in (value, *(item.encode(errors="surrogateescape") for item in (*quoted, *spelled))):
        # A form of several lines never stands in one.
        if len(form.strip()) >= SHORTEST and not _LINE_END.search(form):
            yield form


def _base64(value: bytes) -> Iterator[bytes]:
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + value)
        # What its neighbours do not change, whatever stands before and behind it.
        core = encoded.rstrip(b"=")[-(-before * 8 // 6) :]
        core = core[:-1] if (before + len(value)) % 3 else core
        for form in dict.fromkeys((core, core.translate(bytes.maketrans(b"+/", b"-_")))):
            if len(form) >= 2 * SHORTEST:
                yield form
    wrapped = base64.b64encode(value)
    if len(wrapped) > _WRAPPED:
        lines = (wrapped[start : start + _WRAPPED] for start in range(0, len(wrapped), _WRAPPED))
        yield from (line for line in lines if len(line.rstrip(b"=")) >= 2 * SHORTEST)


class MaskedStream:
    """The stream of ``--progress=rawjson`` with secrets hidden: lines in, lines out.

    A step's output comes in pieces that end anywhere. What has no line's end yet is held back, so that a secret in
    two pieces is hidden, too.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held: dict[tuple[str, int], bytes] = {}
        self.told: dict[str, None] = {}
        """Secrets that were hidden at least once."""

    def feed(self, line: bytes) -> Iterator[bytes]:
        """Yield what may be shown once ``line`` has come."""
        if not self._mask:
            yield line
            return
        try:
            document: object = json.loads(line)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            yield self._hide(line)
            return
        ended = [item.get("digest") for item in _tables(document, "vertexes") if item.get("completed")]
        yield from self._released([key for key in self._held if key[0] in ended])
        for log in _tables(document, "logs"):
            vertex, stream = str(log.get("vertex")), log.get("stream")
            log["data"] = _text(self._take((vertex, stream if isinstance(stream, int) else 1), _bytes(log.get("data"))))
        for warning in _tables(document, "warnings"):
            detail = warning.get("detail")
            warning["short"] = _text(self._hide(_bytes(warning.get("short"))))
            warning["detail"] = [_text(self._hide(_bytes(item))) for item in detail] if isinstance(detail, list) else []
        for item in (*_tables(document, "vertexes"), *_tables(document, "statuses")):
            for key in ("name", "error"):
                if isinstance(item.get(key), str):
                    item[key] = self._hide(str(item[key]).encode(errors="replace")).decode(errors="replace")
        yield json.dumps(document, separators=(",", ":")).encode() + b"\n"

    def close(self) -> Iterator[bytes]:
        """Yield what was still held back."""
        yield from self._released(list(self._held))

    def _take(self, key: tuple[str, int], data: bytes) -> bytes:
        rest = self._held.pop(key, b"") + data
        cut = max(rest.rfind(b"\n"), rest.rfind(b"\r")) + 1
        whole, rest = self._hide(rest[:cut]), rest[cut:]
        limit = max(HELD, 2 * self._mask.longest)
        if len(rest) > limit:
            # The end may be the beginning of a secret: that much is always held back.
            hidden = self._hide(rest)
            whole, rest = whole + hidden[: -self._mask.longest], hidden[-self._mask.longest :]
        if rest:
            self._held[key] = rest
        return whole

    def _released(self, keys: Iterable[tuple[str, int]]) -> Iterator[bytes]:
        for key in keys:
            log = {"vertex": key[0], "stream": key[1], "data": _text(self._hide(self._held.pop(key)))}
            yield json.dumps({"logs": [log]}, separators=(",", ":")).encode() + b"\n"

    def _hide(self, data: bytes) -> bytes:
        hidden = self._mask.hide(data)
        if hidden != data:
            self.told.update(dict.fromkeys(sorted(self._mask.told_by(data))))
        return hidden


def _tables(document: dict[str, object], key: str) -> list[dict[str, object]]:
    found = document.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _bytes(value: object) -> bytes:
    if not isinstance(value, str):
        return b""
    try:
        return base64.b64decode(value)
    except ValueError:
        return value.encode(errors="replace")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
