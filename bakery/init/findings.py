"""A fact that a file of the project states, and where."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, relative to the folder; line 0 is the whole file."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        """Return ``pyproject.toml:12``."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Fact:
    """A text of the project and its place."""

    text: str
    place: Place


class Rest(NamedTuple):
    """A setting of another tool that is not carried over, with its place, and the reason."""

    what: str
    reason: str


def line_at(text: str | bytes, offset: int) -> int:
    """Return the 1-based line of an offset."""
    return (text.count("\n", 0, offset) if isinstance(text, str) else text.count(b"\n", 0, offset)) + 1


class Lines:
    """The lines of a text in which many offsets are looked up."""

    def __init__(self, text: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def at(self, offset: int) -> int:
        """Return the 1-based line of an offset."""
        return bisect_left(self._ends, offset) + 1


def distinct(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Return the first fact of each text."""
    first: dict[str, Fact] = {}
    for fact in facts:
        first.setdefault(fact.text, fact)
    return tuple(first.values())


def plain(value: object) -> bool:
    """Whether a value of the project may stand in a recipe as it is: one printable line that refers to no variable."""
    return isinstance(value, str) and value.isprintable() and len(value) <= 500 and "${" not in value


def is_requirement(text: str) -> bool:
    """Whether a recipe can require it: a distribution of the package index, perhaps with versions and a marker."""
    if not plain(text) or "@" in text:
        return False
    try:
        Requirement(text)
    except (InvalidRequirement, ValueError, RecursionError):
        return False
    return True


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def requirement_name(text: str) -> str:
    """Return the normalised name in a requirement: ``Scikit_Build_Core[pyproject]>=0.10`` → ``scikit-build-core``."""
    match = _NAME.match(text.strip())
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""
