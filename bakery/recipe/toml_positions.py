"""The line of each key and list item of a TOML text, which ``tomllib`` does not return.

The scanner is lenient, because ``tomllib`` checks the same text, and it terminates for every text.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]*")
_STRINGS = (
    re.compile(r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})', re.DOTALL),
    re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)
MOST = 10_000
"""The maximum number of keys and list items of a recipe."""

DEEPEST = 20
"""The maximum depth of a value. For deeper values, ``tomllib`` needs quadratic time."""


class TooMuch(ValueError):
    """A text with too many levels or entries; ``line`` (1-based) is where it exceeds the limit."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


def positions(text: str, most: int = MOST) -> dict[Path, int]:
    """Return the 1-based line of every table, key and list item of ``text``, by path.

    Raises:
        TooMuch: it has more than ``most`` of them, or more than `DEEPEST` levels.
    """
    return _Scanner(text.replace("\r\n", "\n"), most).scan()


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """Return the line of ``path``, or of its nearest parent that has one, or else 1."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


class _Scanner:
    def __init__(self, text: str, most: int) -> None:
        self.text = text
        self.most = most
        self.entries = 0
        self.at = 0
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.stated: dict[Path, int] = {}
        self.implied: dict[Path, int] = {}
        self.counts: dict[Path, int] = {}

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while True:
            self._skip(_BLANK)
            if self.at >= len(self.text):
                return {**self.implied, **self.stated}
            start = self.at
            if self._take("[["):
                table = self._header(start, is_list=True)
            elif self._take("["):
                table = self._header(start, is_list=False)
            else:
                self._pair(table)
            if self.at == start:
                self._skip_line()

    def _header(self, start: int, *, is_list: bool) -> Path:
        path: Path = ()
        key = self._key()
        for number, part in enumerate(key, 1):
            path = (*path, part)
            if number == len(key) and is_list:
                self._mark(path, start)
                self.counts[path] = self.counts.get(path, 0) + 1
            elif number < len(key):
                self.implied.setdefault(path, self._line(start))
            if path in self.counts:
                path = (*path, self.counts[path] - 1)
        self._mark(path, start)
        self._skip_line()
        return path

    def _pair(self, table: Path) -> None:
        start = self.at
        key = self._key()
        if not key:
            return
        self._check_depth(len(table) + len(key), start)
        for end in range(1, len(key)):
            self.implied.setdefault((*table, *key[:end]), self._line(start))
        path = (*table, *key)
        self._mark(path, start)
        self._skip(_SPACE)
        if self._take("="):
            self._skip(_SPACE)
            self._value(path)

    def _key(self) -> Path:
        parts: list[str | int] = []
        while True:
            self._skip(_SPACE)
            start = self.at
            if self.text[start : start + 1] in ('"', "'"):
                part = _unquoted(self._string())
            else:
                self._skip(_BARE_KEY)
                part = self.text[start : self.at]
            if self.at == start:
                return tuple(parts)
            parts.append(part)
            self._check_depth(len(parts), start)
            self._skip(_SPACE)
            if not self._take("."):
                return tuple(parts)

    def _check_depth(self, depth: int, start: int) -> None:
        if depth > DEEPEST:
            raise TooMuch(f"keys, lists or tables are nested more than {DEEPEST} levels deep", self._line(start))

    def _value(self, path: Path) -> None:
        char = self.text[self.at : self.at + 1]
        if char in ('"', "'"):
            self._string()
        elif char == "[":
            self._list(path)
        elif char == "{":
            self._inline_table(path)
        else:
            self._skip(_SCALAR)

    def _list(self, path: Path) -> None:
        self._check_depth(len(path) + 1, self.at)
        self.at += 1
        index = 0
        while True:
            self._skip(_BLANK)
            start = self.at
            if start >= len(self.text) or self._take("]"):
                return
            if not self._take(","):
                self._mark((*path, index), start)
                index += 1
                self._value((*path, index - 1))
            if self.at == start:
                return

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while True:
            self._skip(_BLANK)
            start = self.at
            if start >= len(self.text) or self._take("}"):
                return
            if not self._take(","):
                self._pair(path)
            if self.at == start:
                return

    def _string(self) -> str:
        for pattern in _STRINGS:
            match = pattern.match(self.text, self.at)
            if match:
                self.at = match.end()
                return match.group()
        start = self.at
        self._skip_line()
        return self.text[start : self.at]

    def _mark(self, path: Path, start: int) -> None:
        self.entries += 1
        if self.entries > self.most:
            raise TooMuch(f"more than {self.most} keys and list items", self._line(start))
        self.stated.setdefault(path, self._line(start))

    def _line(self, offset: int) -> int:
        return bisect_right(self.starts, offset)

    def _take(self, token: str) -> bool:
        is_next = self.text.startswith(token, self.at)
        if is_next:
            self.at += len(token)
        return is_next

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()

    def _skip_line(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end + 1


def _unquoted(literal: str) -> str:
    try:
        value = tomllib.loads(f"k = {literal}")["k"]
    except ValueError:
        return literal
    return value if isinstance(value, str) else literal
