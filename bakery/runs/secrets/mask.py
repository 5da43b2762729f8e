"""Hides secrets in the output of steps: the stream of a bake passes through here first.

What is hidden are the values themselves, line by line, and what tools make of them: percent-encoding, JSON or HTML, in any
number of quotes of JSON, Python and shells. Of base64 and hexadecimal text every part that holds a part of a value is hidden, whatever stands
before the value (``user:secret``) and wherever the lines of that text end. A step that is out to show a secret can.
"""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bakery.core.files import write
from bakery.core.text import decode_base64, tables
from wheel_audit.plain_files import read_plain
from wheel_audit.readers import MOST_BYTES, json_of

SHORTEST = 4
"""Values, and lines of values, with fewer characters are not hidden; they would match ordinary words."""

HELD = 64 * 1024
"""Bytes of a line without an end that are held back at most."""

_HIDDEN = b"***"

_SEED = 16
"""Bytes by which a longer form is found; also the shortest part of encoded text that tells a part of a value."""

_DENSE = 8 * 1024
"""Bytes of a value up to which a part of encoded text may begin anywhere in the value."""

_STRIDE = 36
"""Of a longer value, bytes between the seeds: text that is wrapped at 64 characters or more still has one in each line."""

_VARIED = 5
"""Different bytes that a part of a value must have to tell it: spaces and zeros are in many texts."""

_SKIPPED = b"\r\n\\'\""
"""What is passed over: line ends, since tools break long lines; backslashes and quotes, since each quoting adds some."""

_SKIPS = re.compile(rb"[\r\n\\'\"]")

_PADDING = re.compile(rb"[\w+/-]?={1,2}")
_ORDINARY = re.compile(r"[A-Za-z0-9_.-]*\Z")
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class _Form(NamedTuple):
    """The form of a secret in output.

    ``name`` is the secret's; ``seed``: where in ``text`` the seed begins; ``is_part``: a part of ``text`` with the seed
    is enough (encoded values).
    """

    name: str
    text: bytes
    seed: int = 0
    is_part: bool = False


class Mask:
    """Hides secrets; false for none. ``longest``: bytes of the longest hidden text."""

    def __init__(self, values: Mapping[str, bytes]) -> None:
        """Take name → value."""
        self._forms: dict[bytes, dict[bytes, _Form]] = {}
        for name, value in values.items():
            for text in _wholes(value):
                self._add(_Form(name, text))
            for text, seeds in _encoded(value):
                for seed in seeds:
                    self._add(_Form(name, text, seed, is_part=True))
        self._sizes = sorted({len(seed) for seed in self._forms})
        self._next = _finder(self._forms)
        # Among them may be what is passed over.
        self.longest = 2 * max((len(text) for forms in self._forms.values() for text in forms), default=0)

    def _add(self, form: _Form) -> None:
        # Where a seed is twice in a text, what follows it has seeds of its own.
        self._forms.setdefault(form.text[form.seed : form.seed + _SEED], {}).setdefault(form.text, form)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def hide(self, data: bytes) -> bytes:
        """Return ``data`` with secrets hidden; the number of lines stays."""
        shown: list[bytes] = []
        end = 0
        for start, stop, _ in sorted(self._matches(data)):
            if start >= end or not shown:
                shown += [data[end:start], _HIDDEN]
            end = max(end, stop)
        return b"".join([*shown, data[end:]])

    def hide_in(self, path: Path) -> bytes:
        """Hide secrets in a file of the run; return what it holds then. Raises OSError or OutputError."""
        data = read_plain(path, MOST_BYTES)
        if (shown := self.hide(data)) != data:
            write(path.parent, {path.name: shown.decode()})
        return shown

    def names_in(self, data: bytes) -> set[str]:
        """Return the names of the secrets in ``data``."""
        return {name for _, _, name in self._matches(data)}

    def _matches(self, data: bytes) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and name of each match, separately for each of its lines."""
        flat = data.translate(None, _SKIPPED)
        matches = list(self._matches_in_line(flat))
        if not matches or len(flat) == len(data):
            yield from matches
            return
        # For each byte that is passed over, how many of the others stand before it.
        before = [match.start() - number for number, match in enumerate(_SKIPS.finditer(data))]
        for start, stop, name in matches:
            first, last = start + bisect_right(before, start), stop + bisect_right(before, stop - 1)
            lines = list(re.finditer(rb"[^\r\n]+", data[first:last]))
            if len(lines) == 1 or stop - start >= _SEED:
                yield from ((first + line.start(), first + line.end(), name) for line in lines)

    def _matches_in_line(self, data: bytes) -> Iterator[tuple[int, int, str]]:
        at = self._next(data, 0)
        while at >= 0:
            done = at + _SEED
            for form in [form for size in self._sizes for form in self._forms.get(data[at : at + size], {}).values()]:
                if form.is_part:
                    start, stop = _part(data, at, form)
                    yield start, stop, form.name
                    done = max(done, stop)
                elif data.startswith(form.text, at):
                    yield at, at + len(form.text), form.name
            # Within encoded text that was found begins nothing else, but for its end.
            at = self._next(data, done - _SEED + 1)


def _never(_data: bytes, _at: int) -> int:
    return -1


def _finder(seeds: Iterable[bytes]) -> Callable[[bytes, int], int]:
    """Return a function that finds the next seed from an index on, or -1; its time does not depend on their number."""
    listed = list(seeds)
    if not listed:
        # A function of the module, so that a request can be pickled.
        return _never
    # Slow to import, and needed for secrets only.
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 1 << 30
    options.log_errors = False
    escaped = (b"".join(b"\\x%02x" % byte for byte in seed) for seed in listed)
    pattern = re2.compile(b"|".join(escaped), options)

    def find(data: bytes, at: int) -> int:
        match = pattern.search(data, at)
        return match.start() if match else -1

    return find


def _part(data: bytes, at: int, form: _Form) -> tuple[int, int]:
    """Return start and end of the longest match around ``at`` of an encoded text, with the padding of base64."""
    stop = at + _common(data, at, form.text, form.seed)
    padding = _PADDING.match(data, stop)
    before = 0
    while before < min(at, form.seed) and data[at - before - 1] == form.text[form.seed - before - 1]:
        before += 1
    return at - before, padding.end() if padding else stop


def _common(one: bytes, at: int, other: bytes, there: int) -> int:
    """Return the number of equal bytes from two indices on."""
    most, size = min(len(one) - at, len(other) - there), 0
    while size < most and one[at + size : at + size + 64] == other[there + size : there + size + 64]:
        size += 64
    while size < most and one[at + size] == other[there + size]:
        size += 1
    return min(size, most)


def _wholes(value: bytes) -> Iterator[bytes]:
    """Yield the forms of a value and its lines that are hidden as a whole, without skipped bytes."""
    for line in dict.fromkeys(line.strip() for line in value.splitlines()):
        if len(line) >= SHORTEST:
            for form in (line, *_spelled(line), line.hex().encode(), line.hex().upper().encode()):
                if len(short := form.translate(None, _SKIPPED)) >= SHORTEST:
                    yield short
            if len(line) < _SEED:
                yield from _base64(line)


def _spelled(value: bytes) -> Iterator[bytes]:
    """Yield a value in the syntax of other formats."""
    text = value.decode(errors="surrogateescape")
    if not _ORDINARY.match(text):
        for form in (*_percent(value), *_json(text), *_html(text), *_quoted(text, value)):
            yield form.encode(errors="surrogateescape")


def _percent(value: bytes) -> Iterator[str]:
    # What browsers, Go, curl and Python leave as it is.
    for safe in ("", "/", "!'()*", "!'()*;,/?:@&=+$#", "$&+=:@"):
        quoted = urllib.parse.quote_from_bytes(value, safe=safe)
        lower = re.sub("%..", lambda match: match[0].lower(), quoted)
        yield from (quoted, lower, quoted.replace("%20", "+"), lower.replace("%20", "+"))


def _json(text: str) -> Iterator[str]:
    # Go escapes what HTML gives a meaning, .NET some more.
    for marked in ("", "<>&\u2028\u2029", "<>&\"'+`\u2028\u2029"):
        table = {char: f"\\u{ord(char):04x}" for char in marked}
        for ascii_only in (True, False):
            form = "".join(table.get(char) or json.dumps(char, ensure_ascii=ascii_only)[1:-1] for char in text)
            yield form
            yield re.sub(r"(?<=\\u)[0-9a-f]{4}", lambda match: match[0].upper(), form)


_HTML_QUOTES: tuple[dict[str, str], ...] = (
    {},
    {"'": "&#39;"},
    {'"': "&quot;"},
    {'"': "&quot;", "'": "&#x27;"},
    {'"': "&quot;", "'": "&#39;"},
    {'"': "&quot;", "'": "&apos;"},
    {'"': "&#34;", "'": "&#39;"},
)
"""What programs write for quotes."""


def _html(text: str) -> Iterator[str]:
    for quotes in _HTML_QUOTES:
        form = html.escape(text, quote=False).translate({ord(char): entity for char, entity in quotes.items()})
        yield form
        yield form.replace("+", "&#43;")
        yield re.sub(r"[^\x00-\x7f]", lambda match: f"&#{ord(match[0])};", form)
        yield from (json.dumps(form)[1:-1], ascii(form)[1:-1])


def _quoted(text: str, value: bytes) -> Iterator[str]:
    """Yield a value in quotes of Python and shells, whatever they escape."""
    yield from (ascii(text)[1:-1], repr(value)[2:-1])
    yield from (text.replace("'", "'\"'\"'"), text.replace("'", "'\\''"))
    yield re.sub(rb"[^ -~]", lambda match: b"\\%03o" % ord(match[0]), value).decode()


def _base64(value: bytes) -> Iterator[bytes]:
    """Yield the base64 of a short value with any text before and after it."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + value)
        # What its neighbours do not change.
        core = encoded.rstrip(b"=")[-(-before * 8 // 6) :]
        core = core[:-1] if (before + len(value)) % 3 else core
        for form in dict.fromkeys((core, core.translate(_URL_SAFE))):
            if len(form) >= 2 * SHORTEST:
                yield form


def _encoded(value: bytes) -> Iterator[tuple[bytes, list[int]]]:
    """Yield a value in base64 and hexadecimal, and where the seeds of each begin.

    Text before the value shifts its base64 by up to two bytes, so there are three forms.
    """
    dense = len(value) <= _DENSE
    for skipped in range(3):
        text = base64.b64encode(value[skipped:])
        for form in dict.fromkeys((text, text.translate(_URL_SAFE))):
            yield form, _seeds(value[skipped:], form, 3, 4, 1 if dense else _STRIDE // 3)
    for form in (value.hex().encode(), value.hex().upper().encode()):
        yield form, _seeds(value, form, 1, 2, 1 if dense else _STRIDE - 12)


def _seeds(value: bytes, text: bytes, taken: int, given: int, stride: int) -> list[int]:
    """Return where in an encoded text the seeds begin.

    ``taken`` bytes of the value make ``given`` characters; ``stride`` of these steps are between two seeds.
    """
    steps = range(0, (len(text.rstrip(b"=")) - _SEED) // given + 1, stride)
    size = _SEED * taken // given
    return [step * given for step in steps if len(set(value[step * taken : step * taken + size])) >= _VARIED]


class MaskedStream:
    """The stream of ``--progress=rawjson`` with secrets hidden: lines in, lines out.

    Output of a step comes in pieces. The end of a piece without a line end is held back, so that a secret in two pieces
    is hidden, too.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held: dict[tuple[str, int], bytes] = {}
        self.printed: dict[str, None] = {}
        """Secrets that were hidden at least once."""

    def feed(self, line: bytes) -> Iterator[bytes]:
        """Yield what can be shown after ``line``."""
        if not self._mask:
            yield line
            return
        try:
            document: object = json_of(line)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            yield self._hide(line)
            return
        ended = [item.get("digest") for item in tables(document, "vertexes") if item.get("completed")]
        yield from self._released([key for key in self._held if key[0] in ended])
        for log in tables(document, "logs"):
            vertex, stream = str(log.get("vertex")), log.get("stream")
            log["data"] = _text(
                self._take((vertex, stream if isinstance(stream, int) else 1), decode_base64(log.get("data")))
            )
        for warning in tables(document, "warnings"):
            detail = warning.get("detail")
            warning["short"] = _text(self._hide(decode_base64(warning.get("short"))))
            warning["detail"] = (
                [_text(self._hide(decode_base64(item))) for item in detail] if isinstance(detail, list) else []
            )
        for item in (*tables(document, "vertexes"), *tables(document, "statuses")):
            for key in ("name", "error"):
                if isinstance(item.get(key), str):
                    item[key] = self._hide(str(item[key]).encode(errors="replace")).decode(errors="replace")
        yield json.dumps(document, separators=(",", ":")).encode() + b"\n"

    def close(self) -> Iterator[bytes]:
        """Yield the rest."""
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
            self.printed.update(dict.fromkeys(sorted(self._mask.names_in(data))))
        return hidden


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
