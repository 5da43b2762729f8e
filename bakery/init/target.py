"""Where the recipe goes: a new bakery.toml, or a new table at the end of pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bakery.core.errors import OutputError, UsageError
from bakery.init.draft import Draft
from bakery.init.toml_data import read_toml
from bakery.init.tree import LARGEST, Tree
from bakery.init.write import already, append, create, recipe_text
from bakery.recipe.files import FILE, PYPROJECT, exists


@dataclass(frozen=True)
class Target:
    """The file that gets the recipe.

    Attributes:
        before: the content of pyproject.toml; None for a new file.
    """

    file: Path
    before: bytes | None = None

    def text(self, draft: Draft) -> str:
        """Return the text to write."""
        return recipe_text(draft, prefix="" if self.before is None else "tool.bakery")

    def whole(self, text: str) -> str:
        """Return the content of the file once ``text`` is written."""
        return text if self.before is None else f"{self.before.decode('utf-8', 'replace')}\n{text}"

    def write(self, text: str) -> None:
        """Write the file.

        Raises:
            OutputError: the file exists, was changed in the meantime, or cannot be written.
        """
        if self.before is None:
            create(self.file, text)
        else:
            append(self.file, text, self.before)


def find_target(tree: Tree, *, pyproject: bool) -> Target:
    """Return the file that gets the recipe of a folder.

    Raises:
        OutputError: the folder has a recipe, or pyproject.toml cannot be changed.
        UsageError: there is no pyproject.toml to write to.
        RecipeError: pyproject.toml is not TOML.
    """
    if exists(tree.root / FILE):
        raise already(FILE)
    data = read_toml(tree, PYPROJECT)
    if data and data.get("tool", "bakery") is not None:
        raise already(PYPROJECT)
    if not pyproject:
        return Target(tree.root / FILE)
    content = tree.read(PYPROJECT, LARGEST)
    if data is None or content is None:
        raise UsageError(f"there is no {PYPROJECT} in {tree.root}", hint=f"leave out --pyproject to write {FILE}")
    if PYPROJECT in tree.targets:
        raise OutputError(f"{PYPROJECT} is a link", hint=f"leave out --pyproject to write {FILE}")
    return Target(tree.root / PYPROJECT, content)
