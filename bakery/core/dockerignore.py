"""Patterns of ``.dockerignore``, read as BuildKit reads them."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable, Iterable

from bakery.core.text import compile_linear

LONGEST = 4096
"""The maximum length of a pattern, in characters: no path is longer."""

_CHARACTER = r"(?:\\.|[^\\\]-])"
_WELL_FORMED = re.compile(
    rf"(?:\\.|\[\^?+(?:{_CHARACTER}(?:-{_CHARACTER})?)+\]|[^\\\[])*\Z",
    re.DOTALL,
)
"""Patterns that Go's filepath.Match accepts."""


_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_IN_A_LINE = re.compile(r"^\s|\s\Z|[\x00-\x1f\ud800-\udfff]")
"""Characters that a line of an ignore file cannot have: spaces around it are dropped, and it is UTF-8."""


def normalised(line: str) -> str:
    """Return the pattern in a line of an ignore file, as BuildKit reads it (moby/patternmatcher, ignorefile); empty for none."""
    if line.startswith("#"):
        return ""
    text = line.strip()
    exception = text.startswith("!")
    text = text.removeprefix("!").strip()
    if not text:
        return ""
    # Go's filepath.Clean: a path from the root stays one level deep.
    text = posixpath.normpath(text)
    text = "/" + text.lstrip("/") if text.startswith("/") else text
    return ("!" if exception else "") + (text[1:] if len(text) > 1 and text.startswith("/") else text)


def escaped(path: str) -> str:
    """Return the pattern that matches one path; of a character that a line cannot have, also those with another in its place."""
    text = _NOT_IN_A_LINE.sub("?", re.sub(r"([*?\[\]\\])", r"\\\1", path))
    return "\\" + text if text.startswith(("#", "!")) else text


def check_ignored(pattern: str) -> None:
    """Check one normalised pattern, without ``!``. Raises ValueError if BuildKit refuses it, or it is too long."""
    if len(pattern) > LONGEST:
        raise ValueError(f"more than {LONGEST} characters")
    if not _WELL_FORMED.match(pattern):
        raise ValueError("a bracket or a backslash is not closed")
    _Group([pattern])


_SIMPLE = re.compile(r"(?:\*\*/)?(?:[^*\[\]\\^]|\*(?!\*))*\Z", re.DOTALL)
"""Patterns without ranges and escapes, with ``**`` only as the first folder."""


def _simple_regex(bare: str) -> str:
    """Return the regular expression of a pattern that has no ``**``, for Python's engine.

    It is linear: a ``*`` ends where the text after it first occurs, and backtracking cannot find another match.
    """
    first, *rest = ["".join("[^/]" if char == "?" else re.escape(char) for char in text) for text in bare.split("*")]
    return first + "".join(f"(?>[^/]*?{text})" for text in rest[:-1]) + "".join(f"[^/]*{text}" for text in rest[-1:])


def _compiled(pattern: str) -> tuple[str, str]:
    """Return a pattern as moby/patternmatcher compiles it (Pattern.compile): ``path``, ``start``, ``end`` or ``regex``; text."""
    regex, kind, at = "", "path", 0
    while at < len(pattern):
        char, start = pattern[at], at
        at += 1
        if char == "*" and pattern.startswith("*", at):
            at += 2 if pattern.startswith("/", at + 1) else 1
            if at < len(pattern):
                regex, kind = regex + "(?:.*/)?", "regex"
            else:
                regex, kind = regex + ".*", "start" if kind == "path" else "regex"
            kind = kind if start else "end"
        elif char in "*?":
            regex, kind = regex + ("[^/]*" if char == "*" else "[^/]"), "regex"
        elif char == "\\":
            regex, kind = regex + pattern[start : at + 1], "regex"
            at += 1
        else:
            regex += f"\\{char}" if char in ".+()|{}$" else char
            kind = "regex" if char in "[]" else kind
    return kind, {"path": pattern, "start": pattern[:-2], "end": pattern[2:], "regex": regex}[kind]


class _Group:
    """Patterns that all ignore, or all are exceptions, sorted by the fastest way to match them."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """Raises ValueError if a pattern is not valid."""
        self._names, self._paths = set[str](), set[str]()
        starts, ends, by_name, by_path, others = [], [], [], [], []
        for pattern in patterns:
            kind, text = _compiled(pattern)
            bare = pattern.removeprefix("**/")
            if kind == "path":
                self._paths.add(text)
            elif kind == "start":
                starts.append(text)
            elif kind == "end" and text == f"/{bare}" and "/" not in bare:
                self._names.add(bare)
            elif kind == "end":
                ends.append(text)
                # "**/foo" matches "foo".
                self._paths.update([text[1:]] if text.startswith("/") else ())
            elif not _SIMPLE.match(pattern):
                others.append(text)
            elif bare != pattern and "/" not in bare:
                by_name.append(_simple_regex(bare))
            else:
                by_path.append(("(?:.*/)?" if bare != pattern else "") + _simple_regex(bare))
        self._starts, self._ends = tuple(starts), tuple(ends)
        self._by_name, self._by_path = (re.compile("|".join(items)) if items else None for items in (by_name, by_path))
        self._linear = compile_linear("|".join(f"(?:{item})" for item in others)) if others else None

    def matches(self, path: str, name: str) -> bool:
        """Whether a pattern matches ``path``, whose last part is ``name``."""
        return (
            name in self._names
            or path in self._paths
            or (self._by_name is not None and self._by_name.fullmatch(name) is not None)
            or (self._by_path is not None and self._by_path.fullmatch(path) is not None)
            or path.startswith(self._starts)
            or path.endswith(self._ends)
            # Go reads each byte that is not UTF-8 as U+FFFD.
            or (self._linear is not None and self._linear.fullmatch(_SURROGATE.sub("\ufffd", path)) is not None)
        )


class Ignore:
    """Decides which files an ignore file keeps out of a build context, as BuildKit does: the last matching pattern counts."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Take the lines of the file. Raises ValueError if a pattern is not valid."""
        patterns = [pattern for line in lines if (pattern := normalised(line))]
        # Neighbours of one kind are matched together.
        runs = itertools.groupby(patterns, key=lambda pattern: not pattern.startswith("!"))
        self._groups = [(ignores, _Group(item.removeprefix("!") for item in items)) for ignores, items in runs]
        self.has_exceptions = any(not ignores for ignores, _ in self._groups)

    def plain(self) -> Callable[[str, str], bool] | None:
        """Return a function of path and last part, for paths whose parents are not ignored: much faster than `step`.

        None if there are exceptions, which need `step`.
        """
        return self._groups[0][1].matches if len(self._groups) == 1 and not self.has_exceptions else None

    def step(self, above: tuple[bool, ...], path: str, name: str) -> tuple[bool, ...]:
        """Return which groups match ``path``, whose last part is ``name``.

        As in moby/patternmatcher (MatchesUsingParentResults), a pattern that matches the parent folder matches the path,
        and a pattern is only tried if it would change the result so far.
        """
        state, ignored = [], False
        for parent_matches, (ignores, group) in zip(above, self._groups, strict=True):
            hit = parent_matches or (ignores is not ignored and group.matches(path, name))
            ignored = ignores if hit else ignored
            state.append(hit)
        return tuple(state)

    def is_ignored(self, state: tuple[bool, ...]) -> bool:
        """Whether a path with this state is ignored."""
        return next((ignores for (ignores, _), hit in zip(self._groups[::-1], state[::-1], strict=True) if hit), False)

    def below(self, folder: str) -> tuple[bool, ...]:
        """Return the state of a folder; ``.`` is the context itself."""
        state, pieces = (False,) * len(self._groups), folder.split("/") if folder != "." else []
        for depth, name in enumerate(pieces, 1):
            state = self.step(state, "/".join(pieces[:depth]), name)
        return state

    def ignores(self, path: str) -> bool:
        """Whether ``path``, relative to the context, stays out of it."""
        return self.is_ignored(self.below(path))
