"""File → Recipe: finds recipe files, reads them, and reports every problem of a file at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path, PurePosixPath

from bakery.core import names
from bakery.core.errors import RecipeError
from bakery.recipe.cross_checks import check
from bakery.recipe.models import Builders, Ci, Farm, Recipe, Workspace
from bakery.recipe.problems import Problem, describe, dotted, merged, nearest, recipe_error, shorten
from bakery.recipe.pydantic_errors import find_problems
from bakery.recipe.toml_file import Document, read
from bakery.recipe.toml_positions import line_of
from bakery.toolchains import components, registry

FILE = "bakery.toml"
PYPROJECT = "pyproject.toml"
_TABLE = ("tool", "bakery")
_BESIDE = ("workspace", "builders")
"""Tables beside a recipe, which are no part of it."""


@dataclass(frozen=True)
class Loaded:
    """A recipe and where it came from.

    Attributes:
        recipe: what was written.
        file: the recipe's file; None for a recipe made in Python.
        root: the project root, from which bake runs.
        folder: the recipe's folder relative to ``root``, in POSIX form; ``source.path`` is relative to it.
        positions: dotted path (``matrix.python``) → 1-based line in ``file``.
    """

    recipe: Recipe
    file: Path | None
    root: Path
    folder: str = "."
    positions: Mapping[str, int] = field(default_factory=dict)

    @property
    def source(self) -> Path | None:
        """The folder with the project's source; None where the engine fetches it, or there is none."""
        source = self.recipe.source
        if self.recipe.image is not None:
            return None
        if source is not None and source.path is None:
            return None
        return self.root / self.folder / (source.path or "." if source else ".")


@dataclass(frozen=True)
class JobFiles:
    """The jobs of a workspace.

    Attributes:
        files: relative to the workspace, in POSIX form.
        ci: how their workflow is; None where there is to be none.
        alone: there is no recipe beside them.
    """

    files: tuple[str, ...] = ()
    ci: Ci | None = None
    alone: bool = False


@dataclass(frozen=True)
class _Source:
    """The table of a file that holds a recipe, a workspace or both."""

    file: Path
    shown: str
    table: tuple[str, ...]
    data: dict[str, object]
    document: Document

    def located(self, problem: Problem) -> Problem:
        path = (*self.table, *problem.path)
        line = problem.line or line_of(self.document.lines, path)
        return Problem(path if problem.path else (), problem.what, problem.fix, line)

    def positions(self) -> dict[str, int]:
        skip = len(self.table)
        lines = self.document.lines.items()
        return {dotted(path[skip:]): line for path, line in lines if path[:skip] == self.table and len(path) > skip}


def load(reference: str | None, cwd: Path) -> tuple[Loaded, ...]:
    """Load the recipe, or the recipes of the workspace, that ``reference`` names.

    Args:
        reference: a ``.toml`` file, a folder, the name of a recipe of ``cwd``'s workspace, the name of a
            shipped recipe; or None for what ``cwd`` holds.
        cwd: where relative paths start.

    Raises:
        RecipeError: there is no such recipe, or it is malformed; ``details`` holds every problem.
    """
    cwd = cwd.absolute()
    if reference is None:
        return _load_folder(cwd, cwd)
    if _looks_like_path(reference):
        return _load_path(reference, cwd)
    return _load_name(reference, cwd)


def farms(cwd: Path) -> tuple[Mapping[str, Farm], Path]:
    """Return the builders of what ``cwd`` holds by name, and the folder that their files' paths are relative to.

    Raises:
        RecipeError: the table is malformed; ``details`` holds every problem of it.
    """
    source = _find(cwd.absolute(), cwd.absolute())
    if source is None:
        return {}, cwd
    data = {key: value for key, value in source.data.items() if key == "builders"}
    problems = _builder_problems(data)
    if problems:
        raise recipe_error(source.shown, map(source.located, problems))
    return Builders.model_validate(data, by_alias=True, by_name=False).builders or {}, source.file.parent


def job_files(cwd: Path) -> JobFiles:
    """Return the jobs of the workspace that ``cwd`` holds; none where it holds none.

    Raises:
        RecipeError: the table is malformed, or names what is no file in the workspace.
    """
    source = _find(cwd.absolute(), cwd.absolute())
    if source is None or "workspace" not in source.data:
        return JobFiles()
    workspace = _workspace(source)
    root = source.file.parent
    problems = [
        Problem(("workspace", "jobs", index), f"'{shorten(entry)}' is no file in the workspace", "name a job file")
        for index, entry in enumerate(workspace.jobs or ())
        if not is_inside(entry, root) or not (root / entry).is_file()
    ]
    if problems:
        raise recipe_error(source.shown, map(source.located, problems))
    alone = workspace.recipes is None and not _own(source.data)
    return JobFiles(tuple(PurePosixPath(entry).as_posix() for entry in workspace.jobs or ()), workspace.ci, alone)


def from_python(recipe: Recipe, root: Path) -> Loaded:
    """Return a recipe that was made in Python, after the same checks across its fields.

    Raises:
        RecipeError: its fields contradict each other.
    """
    data = recipe.model_dump(mode="json", by_alias=True, exclude_none=True)
    problems = _crossed(data)
    if problems:
        raise recipe_error(f"Recipe(name={recipe.name!r})", problems)
    return Loaded(recipe, None, root)


def shipped() -> dict[str, Path]:
    """Return the shipped recipes: name → file."""
    folder = Path(str(resources.files("bakery.recipe"))) / "shipped"
    return {file.stem: file for file in sorted(folder.glob("*.toml"))}


def _looks_like_path(reference: str) -> bool:
    return not names.RECIPE.match(reference)


def _load_path(reference: str, cwd: Path) -> tuple[Loaded, ...]:
    path = Path(os.path.normpath(cwd / reference))
    if "\0" in reference or not _exists(path):
        raise _no_recipe(reference, cwd, "there is no such file or folder")
    # The same recipe is the same whether it is asked for by folder or as part of the workspace.
    file = _file_of(path) if _is_folder(path) else path
    siblings = _workspace_siblings(cwd, file)
    if siblings:
        return siblings
    if _is_folder(path):
        return _load_folder(path, cwd)
    source = _open(path, cwd)
    if source is None:
        raise _no_recipe(reference, cwd, "it has no [tool.bakery] table")
    return _load_source(source, path.parent, cwd)


def _workspace_siblings(cwd: Path, file: Path | None) -> tuple[Loaded, ...]:
    """Return the recipe of ``cwd``'s workspace that ``file`` holds; nothing where it is none of them."""
    own = _file_of(cwd)
    if file is None or own is None or _resolved(file) == _resolved(own):
        return ()
    recipes, _ = _members_of(cwd)
    return tuple(item for item in recipes if item.file is not None and _resolved(item.file) == _resolved(file))


def _load_name(name: str, cwd: Path) -> tuple[Loaded, ...]:
    recipes, errors = _members_of(cwd)
    same = tuple(item for item in recipes if item.recipe.name == name)
    if same:
        return same
    if _file_of(cwd / name) is not None:
        return _load_path(name, cwd)
    file = shipped().get(name)
    if file is not None:
        return (_load_shipped(file, cwd, cwd),)
    if errors:
        # The name may be that of a recipe which could not be read.
        raise merged(errors)
    raise _no_recipe(name, cwd, "no recipe has this name", [item.recipe.name for item in recipes])


def _members_of(cwd: Path) -> tuple[list[Loaded], list[RecipeError]]:
    """Return the readable recipes of what ``cwd`` holds, and the errors of the others."""
    try:
        source = _find(cwd, cwd)
        return _members(source, cwd, cwd) if source else ([], [])
    except RecipeError as error:
        return [], [error]


def _load_folder(folder: Path, cwd: Path) -> tuple[Loaded, ...]:
    source = _find(folder, cwd)
    if source is None:
        has_pyproject = _exists(folder / PYPROJECT)
        reason = f"{PYPROJECT} has no [tool.bakery] table" if has_pyproject else "the folder holds none"
        raise _no_recipe(None if folder == cwd else _shown(folder, cwd), folder, reason)
    return _load_source(source, folder, cwd)


def _load_source(source: _Source, root: Path, cwd: Path) -> tuple[Loaded, ...]:
    recipes, errors = _members(source, root, cwd)
    if errors:
        raise merged(errors)
    if not recipes:
        raise _no_recipe(None, root, "the workspace has jobs and no recipe; `wheel-bakery compile JOB` compiles one")
    return tuple(recipes)


def _members(source: _Source, root: Path, cwd: Path) -> tuple[list[Loaded], list[RecipeError]]:
    """Return the recipe of ``source`` and those of its workspace, and the errors of those that have any."""
    if "workspace" not in source.data:
        return [_recipe(source, root, ".")], []
    workspace = _workspace(source)
    recipes = [_recipe(source, root, ".")] if _own(source.data) else []
    problems: list[Problem] = []
    errors: list[RecipeError] = []
    for index, entry in enumerate(workspace.recipes or ()):
        try:
            member = _member(entry, root, cwd)
        except RecipeError as error:
            errors.append(error)
            continue
        if isinstance(member, Loaded):
            recipes.append(member)
        else:
            problems.append(Problem(("workspace", "recipes", index), *member))
    problems.extend(_same_names(recipes, cwd))
    if workspace.ci is not None:
        recipes = [_with_ci(item, workspace.ci) for item in recipes]
    if problems:
        errors.insert(0, recipe_error(source.shown, map(source.located, problems)))
    return recipes, errors


def _with_ci(item: Loaded, ci: Ci) -> Loaded:
    # An image is made where it is needed; only wheels have a workflow.
    if item.recipe.ci is not None or item.recipe.image is not None:
        return item
    return replace(item, recipe=item.recipe.model_copy(update={"ci": ci}))


def _same_names(recipes: list[Loaded], cwd: Path) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for item in recipes:
        name, place = item.recipe.name, _shown(item.file, cwd) if item.file else "."
        if name in seen:
            what = f"two recipes are named '{name}': {seen[name]} and {place}"
            yield Problem(("workspace", "recipes"), what, "rename one of them")
        seen.setdefault(name, place)


def _workspace(source: _Source) -> Workspace:
    table = source.data["workspace"]
    if not isinstance(table, dict):
        fix = 'write [workspace] and below it: recipes = ["…"]'
        problems = [Problem(("workspace",), f"expected a table, found {describe(table, ())}", fix)]
    else:
        problems = [
            Problem(("workspace", *problem.path), problem.what, problem.fix)
            for problem in find_problems(Workspace, table)
        ]
    if problems:
        problems += _problems(source.data) if _own(source.data) else []
        raise recipe_error(source.shown, map(source.located, problems))
    return Workspace.model_validate(table, by_alias=True, by_name=False)


def _member(entry: str, root: Path, cwd: Path) -> Loaded | tuple[str, str]:
    """Return the recipe that an entry of a workspace names, or what is wrong with the entry and what to do."""
    folder = root / entry
    file = shipped().get(entry)
    if file is not None and not _exists(folder):
        return _load_shipped(file, root, cwd)
    refused = _refusal(entry, folder, root)
    if refused:
        return refused
    source = _find(folder, cwd)
    if source is None:
        return f"'{shorten(entry)}' holds no recipe", f"write {shorten(entry)}/{FILE}, or remove the entry"
    if "workspace" in source.data:
        return f"'{shorten(entry)}' is a workspace itself", "name its recipes here, one by one"
    return _recipe(source, root, PurePosixPath(entry).as_posix())


def _refusal(entry: str, folder: Path, root: Path) -> tuple[str, str] | None:
    if not is_inside(entry, root):
        what = f"'{shorten(entry)}' lies outside the workspace"
        return what, "name a folder inside it, without '..' and without links that lead out"
    if not _is_folder(folder):
        close = nearest(entry, shipped())
        hint = f"; did you mean {close!r}?" if close else ""
        what = f"'{shorten(entry)}' is neither a folder nor a shipped recipe{hint}"
        return what, f"shipped recipes: {', '.join(shipped()) or 'none'}"
    if _resolved(folder) == _resolved(root):
        return "this is the workspace's own folder", "remove it: a recipe beside [workspace] counts anyway"
    return None


def is_inside(entry: str, root: Path) -> bool:
    """Return whether a relative path stays in a folder: without ``..``, and without links that lead out."""
    parts = PurePosixPath(entry).parts
    if not parts or entry.startswith(("/", "~")) or "\\" in entry or ".." in parts:
        return entry == "."
    return _resolved(root / entry).is_relative_to(_resolved(root))


def _load_shipped(file: Path, root: Path, cwd: Path) -> Loaded:
    source = _open(file, cwd)
    if source is None or "workspace" in source.data:
        raise RecipeError(f"the shipped recipe {file.stem} is damaged", hint="install wheel-bakery again")
    return _recipe(source, root, ".")


def _recipe(source: _Source, root: Path, folder: str) -> Loaded:
    problems = [*_problems(source.data), *_builder_problems(source.data)]
    if problems:
        raise recipe_error(source.shown, map(source.located, problems))
    recipe = Recipe.model_validate(_own(source.data), by_alias=True, by_name=False)
    return Loaded(recipe, source.file, root, folder, source.positions())


def _own(data: Mapping[str, object]) -> dict[str, object]:
    """Return a recipe's part of what a file holds; nothing where it holds none."""
    return {key: value for key, value in data.items() if key not in _BESIDE}


def _problems(data: Mapping[str, object]) -> list[Problem]:
    """Return the problems of the recipe that a file holds."""
    own = _own(data)
    from_models = find_problems(Recipe, own)
    reported = {problem.path for problem in from_models}
    return [*from_models, *(problem for problem in _crossed(own) if problem.path not in reported)]


def _builder_problems(data: Mapping[str, object]) -> list[Problem]:
    """Return the problems of the builders that a file holds."""
    return find_problems(Builders, {"builders": data["builders"]}) if "builders" in data else []


def _crossed(data: Mapping[str, object]) -> tuple[Problem, ...]:
    return check(
        data,
        bases=tuple(registry.bases()),
        toolkits=(registry.ANY_CUDA, *registry.toolkits()),
        frameworks=tuple(registry.frameworks()),
        components=components.known(),
    )


def _find(folder: Path, cwd: Path) -> _Source | None:
    file = _file_of(folder)
    return None if file is None else _open(file, cwd)


def _file_of(folder: Path) -> Path | None:
    """Return the file in ``folder`` that may hold a recipe."""
    return next((file for name in (FILE, PYPROJECT) if _exists(file := folder / name)), None)


def _open(file: Path, cwd: Path) -> _Source | None:
    """Return the recipe's table of ``file``; None for a pyproject.toml without one."""
    shown = _shown(file, cwd)
    document = read(file, shown, cwd if file.is_relative_to(cwd) else None)
    if file.name != PYPROJECT:
        return _Source(file, shown, (), document.data, document)
    tool = document.data.get("tool")
    if not isinstance(tool, dict) or "bakery" not in tool:
        return None
    data = tool["bakery"]
    if not isinstance(data, dict):
        fix = "write [tool.bakery] and the recipe's keys below it"
        problem = Problem(_TABLE, f"expected a table, found {describe(data, ())}", fix, line_of(document.lines, _TABLE))
        raise recipe_error(shown, [problem])
    return _Source(file, shown, _TABLE, data, document)


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except PermissionError:
        # Reading it will say so.
        return True
    except (OSError, ValueError):
        return False
    return True


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        # A loop of links; reading it will say so.
        return path.absolute()


def _shown(path: Path, cwd: Path) -> str:
    """Return ``path`` as messages write it: relative to ``cwd`` where it lies below it."""
    shown = path.relative_to(cwd) if path.is_relative_to(cwd) else path
    return shorten(shown.as_posix(), 200)


def _no_recipe(reference: str | None, where: Path, reason: str, workspace: list[str] | None = None) -> RecipeError:
    named = f"no recipe '{shorten(reference)}'" if reference is not None else "no recipe here"
    known = [*(workspace or []), *shipped()]
    close = nearest(reference, known) if reference else None
    details = [reason, f"looked in {shorten(str(where), 200)} for {FILE}, and for [tool.bakery] in {PYPROJECT}"]
    if workspace:
        details.append(f"recipes of the workspace: {', '.join(workspace)}")
    details.append(f"shipped recipes: {', '.join(shipped()) or 'none'}")
    hint = f"did you mean {close!r}?" if close else f"write a {FILE}, or name a folder that has one or a shipped recipe"
    return RecipeError(named, hint=hint, details=details)
