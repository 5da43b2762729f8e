"""What the files of a project state, and where; tables of what is known about them; TOML files of the project."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from bakery.core.errors import OutputError
from bakery.init.tree import LARGEST, Tree
from bakery.recipe.toml_file import Document, parse
from bakery.recipe.toml_positions import line_of

MOST_FILES = 200
"""Build files of one kind that are read."""

LONGEST_COMMAND = 20_000
"""Characters of a command, or of a setting with commands, that is read."""


_DEEPEST = 50


def is_nested_deeply(text: str) -> bool:
    """Whether brackets are nested more than 50 deep: the time of some parsers grows with the square of the depth."""
    depth = 0
    for bracket in re.findall(r"[()\[\]{}]", text):
        depth += 1 if bracket in "([{" else -1
        if depth > _DEEPEST:
            return True
    return False


class Place(NamedTuple):
    """A line of a file, relative to the folder; line 0 is the whole file."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        """Return ``pyproject.toml:12``."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Fact(NamedTuple):
    """A text of the project and its place."""

    text: str
    place: Place


class Rest(NamedTuple):
    """A setting of another tool that is not carried over, with its place, and the reason."""

    what: str
    reason: str


class Toml:
    """A TOML file of the project: values by path, with their lines."""

    def __init__(self, file: str, document: Document) -> None:
        self.file = file
        self._document = document

    def get(self, *path: str) -> object:
        """Return the value at a path; None if there is none."""
        value: object = self._document.data
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def table(self, *path: str) -> dict[str, object]:
        """Return the table at a path; empty if there is none."""
        value = self.get(*path)
        return value if isinstance(value, dict) else {}

    def place(self, *path: str) -> Place:
        """Return the place of a key, or of the table that holds it."""
        return Place(self.file, line_of(self._document.lines, path))

    def fact(self, *path: str) -> Fact | None:
        """Return the text at a path; None if there is none."""
        value = self.get(*path)
        return Fact(value, self.place(*path)) if isinstance(value, str) else None

    def facts(self, *path: str) -> tuple[Fact, ...]:
        """Return the texts in the list at a path, or its only text."""
        value = self.get(*path)
        items = value if isinstance(value, list) else [value]
        return tuple(Fact(item, self.place(*path)) for item in items if isinstance(item, str))


def read_toml(tree: Tree, file: str) -> Toml | None:
    """Return a TOML file; None if there is none.

    Raises:
        RecipeError: it is not TOML.
        OutputError: it is too large.
    """
    content = tree.read(file, LARGEST + 1)
    if content is None:
        return None
    if len(content) > LARGEST:
        raise OutputError(f"{file} is larger than {LARGEST >> 10} KiB", hint="is this the right file?")
    return Toml(file, parse(content, file) if content.strip() else Document({}, {}))


def matches(pattern: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield the matches of a pattern with their 1-based lines."""
    line, counted = 1, 0
    for match in pattern.finditer(text):
        line += text.count("\n", counted, match.start())
        counted = match.start()
        yield match, line


def texts(tree: Tree, names: Iterable[str], most: int = 4 << 20) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of build files: of the first `MOST_FILES`, up to ``most`` characters in all."""
    for name in islice(names, MOST_FILES):
        text = tree.text(name) or ""
        most -= len(text)
        if most < 0:
            return
        yield name, text


def shell_words(command: str) -> list[str]:
    """Return the words of a command. Raises ValueError if a shell would refuse it, or it is too long."""
    if len(command) > LONGEST_COMMAND:
        # For a word of several 100,000 characters, shlex needs the square of the time.
        raise ValueError("too long")
    return shlex.split(command)


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


def requirement_name(text: str) -> str:
    """Return the normalised name in a requirement: ``Scikit_Build_Core[pyproject]>=0.10`` → ``scikit-build-core``."""
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", text.strip())
    return canonicalize_name(match[0]) if match else ""
