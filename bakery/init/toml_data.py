"""A TOML file of the project: values by path, with their lines."""

from __future__ import annotations

from dataclasses import dataclass

from bakery.core.errors import OutputError
from bakery.init.findings import Fact, Place
from bakery.init.tree import LARGEST, Tree
from bakery.recipe.toml_file import Document, parse
from bakery.recipe.toml_positions import line_of


@dataclass(frozen=True)
class TomlData:
    """The content of a TOML file."""

    file: str
    document: Document

    def get(self, *path: str) -> object:
        """Return the value at a path; None if there is none."""
        value: object = self.document.data
        for key in path:
            if not isinstance(value, dict) or key not in value:
                return None
            value = value[key]
        return value

    def table(self, *path: str) -> dict[str, object]:
        """Return the table at a path; empty if there is none."""
        value = self.get(*path)
        return value if isinstance(value, dict) else {}

    def place(self, *path: str) -> Place:
        """Return the place of a key, or of the table that holds it."""
        return Place(self.file, line_of(self.document.lines, path))

    def fact(self, *path: str) -> Fact | None:
        """Return the text at a path; None if there is none."""
        value = self.get(*path)
        return Fact(value, self.place(*path)) if isinstance(value, str) else None

    def facts(self, *path: str) -> tuple[Fact, ...]:
        """Return the texts in the list at a path, or its only text."""
        value = self.get(*path)
        items = value if isinstance(value, list) else [value]
        return tuple(Fact(item, self.place(*path)) for item in items if isinstance(item, str))


def read_toml(tree: Tree, file: str) -> TomlData | None:
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
    if not content.strip():
        return empty_toml(file)
    return TomlData(file, parse(content, file))


def empty_toml(file: str) -> TomlData:
    """Return the data of an empty file."""
    return TomlData(file, Document({}, {}))
