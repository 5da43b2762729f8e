"""Patterns of other languages, read as those read them: RE2's (bake), and those of ``.dockerignore`` (BuildKit)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_WILD = re.compile(r"[*?\[\]\\]")


def is_unicode(text: str) -> bool:
    """Return whether a text can be written to a file; what came from bytes that are no UTF-8 cannot."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def fits(pattern: str, value: str) -> bool:
    """Return whether a whole value matches a pattern of a recipe, as bake reads it.

    RE2 needs time in proportion to the value's length, whatever the pattern is; Python's own engine does not.

    Raises:
        ValueError: the pattern is none of RE2's.
    """
    import re2

    if not is_unicode(value):
        return False
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options).fullmatch(value) is not None
    except re2.error as error:
        text = error.args[0] if error.args else ""
        raise ValueError(text.decode(errors="replace") if isinstance(text, bytes) else str(text)) from None


def normalised(line: str) -> str:
    """Return a line of an ignore file as BuildKit reads it (moby/patternmatcher, ignorefile); empty for none."""
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
    """Return the pattern of an ignore file that means one path and no other."""
    text = re.sub(r"([*?\[\]\\])", r"\\\1", path)
    return "\\" + text if text.startswith(("#", "!")) else text


def ignore_regex(pattern: str) -> str:
    """Return the regular expression of one normalised pattern, without ``!`` (moby/patternmatcher, compile).

    Raises:
        ValueError: it is none that BuildKit takes.
    """
    found, rest = "", pattern
    while rest:
        char, rest = rest[0], rest[1:]
        if char == "*" and rest.startswith("*"):
            rest = rest[1:].removeprefix("/")
            found += "(?:.*/)?" if rest else ".*"
        elif char == "*":
            found += "[^/]*"
        elif char == "?":
            found += "[^/]"
        elif char == "\\":
            found += re.escape(rest[:1] or "\\")
            rest = rest[1:]
        elif char == "[":
            inside, closed, rest = rest.partition("]")
            if not closed or not inside.strip("^"):
                raise ValueError("a bracket is not closed")
            found += "[" + inside.replace("\\", "\\\\").replace("[", "\\[") + "]"
        else:
            found += re.escape(char)
    try:
        re.compile(found)
    except re.error as error:
        raise ValueError(str(error)) from None
    return found


@dataclass(slots=True)
class _Group:
    """Patterns that all ignore, or all except; sorted by how they can be tried fast."""

    names: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    name_globs: list[str] = field(default_factory=list)
    path_globs: list[str] = field(default_factory=list)

    def add(self, pattern: str) -> None:
        bare = pattern.removeprefix("**/")
        anywhere = bare != pattern and "/" not in bare and "**" not in bare
        if not _WILD.search(bare if anywhere else pattern):
            (self.names if anywhere else self.paths).add(bare)
        elif anywhere:
            self.name_globs.append(ignore_regex(bare))
        else:
            self.path_globs.append(ignore_regex(pattern))

    def compiled(self) -> tuple[set[str], set[str], re.Pattern[str] | None, re.Pattern[str] | None]:
        by_name, by_path = (
            re.compile("|".join(items), re.DOTALL) if items else None for items in (self.name_globs, self.path_globs)
        )
        return self.names, self.paths, by_name, by_path


class Ignore:
    """What an ignore file keeps out of a build context: the last pattern that matches a path or a parent decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Take the lines of the file.

        Raises:
            ValueError: one is no pattern.
        """
        # Neighbours of one kind are tried together.
        groups: list[tuple[bool, _Group]] = []
        for pattern in filter(None, map(normalised, lines)):
            ignores = not pattern.startswith("!")
            if not groups or groups[-1][0] is not ignores:
                groups.append((ignores, _Group()))
            groups[-1][1].add(pattern.removeprefix("!"))
        self._groups = [(ignores, group.compiled()) for ignores, group in groups]
        self.has_exceptions = any(not ignores for ignores, _ in groups)

    def plain(self) -> Callable[[str, str], bool] | None:
        """Return what says whether a path and its last part are ignored, if its parents are not.

        It is much faster than `step`; None where exceptions need that.
        """
        if len(self._groups) != 1 or self.has_exceptions:
            return None
        _, (names, paths, by_name, by_path) = self._groups[0]

        def ignored(path: str, name: str) -> bool:
            return (
                name in names
                or path in paths
                or (by_name is not None and by_name.fullmatch(name) is not None)
                or (by_path is not None and by_path.fullmatch(path) is not None)
            )

        return ignored

    def start(self) -> tuple[bool, ...]:
        """Return the state of the context itself, for `step`."""
        return (False,) * len(self._groups)

    def step(self, above: tuple[bool, ...], path: str, name: str) -> tuple[bool, ...]:
        """Return which groups match ``path``, whose last part is ``name``, or what is above it."""
        return tuple(
            known
            or name in names
            or path in paths
            or bool(by_name and by_name.fullmatch(name))
            or bool(by_path and by_path.fullmatch(path))
            for known, (_, (names, paths, by_name, by_path)) in zip(above, self._groups, strict=True)
        )

    def is_ignored(self, state: tuple[bool, ...]) -> bool:
        """Return what a state says."""
        return next((ignores for (ignores, _), hit in zip(self._groups[::-1], state[::-1], strict=True) if hit), False)

    def ignores(self, path: str) -> bool:
        """Return whether ``path``, relative to the context, stays out of it."""
        state, pieces = self.start(), path.split("/")
        for depth, name in enumerate(pieces, 1):
            state = self.step(state, "/".join(pieces[:depth]), name)
        return self.is_ignored(state)
