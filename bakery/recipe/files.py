"""Files with recipes: their paths, and the tables in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath

from bakery.core.errors import RecipeError
from bakery.recipe.problems import Problem, describe, dotted, recipe_error, shorten
from bakery.recipe.toml_file import Document, read
from bakery.recipe.toml_positions import line_of

FILE = "bakery.toml"
PYPROJECT = "pyproject.toml"
_TABLE = ("tool", "wheel-bakery")
"""In pyproject.toml. PEP 518: a tool's table has the name of its distribution."""

_OLD_TABLE = ("tool", "bakery")
"""The name before 0.1.0. On the package index, it is another project's."""

_BESIDE = ("workspace", "builders")
"""Tables in the file of a recipe that are not part of it."""


@dataclass(frozen=True)
class RecipeFile:
    """The table of a file with a recipe, a workspace or both."""

    file: Path
    shown: str
    table: tuple[str, ...]
    data: dict[str, object]
    document: Document

    def located(self, problem: Problem) -> Problem:
        """Return a problem of the table with its path and line in the file."""
        path = (*self.table, *problem.path)
        line = problem.line or line_of(self.document.lines, path)
        return Problem(path if problem.path else (), problem.what, problem.fix, line)

    def check(self, problems: Iterable[Problem]) -> None:
        """Raise the RecipeError that lists the problems; do nothing without any."""
        located = list(map(self.located, problems))
        if located:
            raise recipe_error(self.shown, located)

    def positions(self) -> dict[str, int]:
        """Return dotted path in the table → line."""
        skip = len(self.table)
        lines = self.document.lines.items()
        return {dotted(path[skip:]): line for path, line in lines if path[:skip] == self.table and len(path) > skip}


def shipped() -> dict[str, Path]:
    """Return the shipped recipes: name → file."""
    folder = Path(str(resources.files("bakery.recipe"))) / "shipped"
    return {file.stem: file for file in sorted(folder.glob("*.toml"))}


def is_inside(entry: str, root: Path) -> bool:
    """Whether a relative path stays in a folder: it has no ``..``, and no link leads out."""
    parts = PurePosixPath(entry).parts
    if not parts or entry.startswith(("/", "~")) or "\\" in entry or ".." in parts:
        return entry == "."
    return resolved(root / entry).is_relative_to(resolved(root))


def recipe_part(data: Mapping[str, object]) -> dict[str, object]:
    """Return the part of a table that is a recipe; empty if there is none."""
    return {key: value for key, value in data.items() if key not in _BESIDE}


def find_table(folder: Path, cwd: Path) -> RecipeFile | None:
    """Return the table in a folder's recipe file; None if there is none. Raises RecipeError for two."""
    file = recipe_file(folder)
    if file is None:
        return None
    if file.name == FILE and exists(folder / PYPROJECT):
        _refuse_second(folder / PYPROJECT, cwd)
    return open_table(file, cwd)


def _refuse_second(file: Path, cwd: Path) -> None:
    """Raise RecipeError if a pyproject.toml beside a bakery.toml has a recipe, too."""
    try:
        second = open_table(file, cwd)
    except RecipeError:
        # What is wrong with the file is not about a recipe, or is one more reason to remove the table.
        return
    if second is not None:
        what = f"{FILE} beside this file has a recipe, too; only one of them is read"
        problem = Problem(
            _TABLE, what, f"move what you need to {FILE}, and remove this table", line_of(second.document.lines, _TABLE)
        )
        raise recipe_error(second.shown, [problem])


def recipe_file(folder: Path) -> Path | None:
    """Return the file in ``folder`` that may contain a recipe; None if there is none."""
    return next((file for name in (FILE, PYPROJECT) if exists(file := folder / name)), None)


def open_table(file: Path, cwd: Path) -> RecipeFile | None:
    """Return the table in ``file``; None for a pyproject.toml without one."""
    shown = shown_path(file, cwd)
    return table_of(file, shown, read(file, shown, cwd if file.is_relative_to(cwd) else None))


def table_of(file: Path, shown: str, document: Document) -> RecipeFile | None:
    """Return the table in the content of ``file``; None for a pyproject.toml without one."""
    if file.name != PYPROJECT:
        return RecipeFile(file, shown, (), document.data, document)
    tool = document.data.get("tool")
    if not isinstance(tool, dict) or not tool.keys() & {"wheel-bakery", "bakery"}:
        return None
    if "wheel-bakery" not in tool:
        old = tool["bakery"]
        # The table of the other project has none of these.
        if isinstance(old, dict) and old.keys() & {"builder", "wheel", "workspace", "builders"}:
            where = line_of(document.lines, _OLD_TABLE)
            what = "this table is not read: its name belongs to another project"
            raise recipe_error(shown, [Problem(_OLD_TABLE, what, "rename it to [tool.wheel-bakery]", where)])
        return None
    data = tool["wheel-bakery"]
    if not isinstance(data, dict):
        fix = "write [tool.wheel-bakery] and the recipe's keys below it"
        problem = Problem(_TABLE, f"expected a table, found {describe(data, ())}", fix, line_of(document.lines, _TABLE))
        raise recipe_error(shown, [problem])
    return RecipeFile(file, shown, _TABLE, data, document)


def exists(path: Path) -> bool:
    """Whether a file, a folder or a link exists, also if it cannot be read."""
    try:
        path.lstat()
    except PermissionError:
        # Reading the file reports this.
        return True
    except (OSError, ValueError):
        return False
    return True


def is_folder(path: Path) -> bool:
    """Whether a path is a folder that can be looked at."""
    try:
        return path.is_dir()
    except OSError:
        return False


def resolved(path: Path) -> Path:
    """Return a path without links."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        # A loop of links. Reading the file reports this.
        return path.absolute()


def shown_path(path: Path, cwd: Path) -> str:
    """Return ``path`` for messages: relative to ``cwd`` if it is inside."""
    shown = path.relative_to(cwd) if path.is_relative_to(cwd) else path
    return shorten(shown.as_posix(), 200)
