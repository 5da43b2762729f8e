"""File → Recipe: finds recipe files, reads them, and reports every problem of a file at once."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from bakery.core import names
from bakery.core.errors import RecipeError
from bakery.recipe.cross_checks import check
from bakery.recipe.files import (
    FILE,
    PYPROJECT,
    RecipeFile,
    exists,
    find_table,
    is_folder,
    is_inside,
    open_table,
    recipe_file,
    recipe_part,
    resolved,
    shipped,
    shown_path,
    table_of,
)
from bakery.recipe.models import Builders, Ci, Farm, Recipe, Workspace
from bakery.recipe.overrides import override_problems
from bakery.recipe.problems import Problem, describe, merged, nearest, recipe_error, shorten
from bakery.recipe.pydantic_errors import find_problems
from bakery.recipe.toml_file import parse
from bakery.toolchains import components, registry


@dataclass(frozen=True)
class Loaded:
    """A recipe and its origin.

    Attributes:
        recipe: the recipe as written, with the defaults of its keys.
        file: its file; None for a recipe made in Python.
        root: the project root, where bake runs.
        folder: its folder relative to ``root``, in POSIX form; ``source.path`` is relative to it.
        positions: dotted path (``matrix.python``) → 1-based line in ``file``.
    """

    recipe: Recipe
    file: Path | None
    root: Path
    folder: str = "."
    positions: Mapping[str, int] = field(default_factory=dict)

    @property
    def source(self) -> Path | None:
        """The folder with the project's source; None if BuildKit fetches the source, or there is none."""
        path = self.recipe.source.path
        return None if self.recipe.image is not None or path is None else self.root / self.folder / path


def load(reference: str | None, cwd: Path) -> tuple[Loaded, ...]:
    """Load the recipe, or the recipes of the workspace, that ``reference`` names.

    Args:
        reference: a ``.toml`` file, a folder, the name of a recipe of ``cwd``'s workspace or of a shipped recipe; None
            for the recipes in ``cwd``.

    Raises:
        RecipeError: there is no such recipe, or it is not valid; ``details`` has every problem.
    """
    cwd = cwd.absolute()
    if reference is None:
        return _load_folder(cwd, cwd)
    return _load_name(reference, cwd) if names.RECIPE.match(reference) else _load_path(reference, cwd)


def load_text(text: str, file: Path) -> Loaded:
    """Load the recipe in a text that is to be written to ``file``.

    Raises:
        RecipeError: it is malformed.
    """
    source = table_of(file, file.name, parse(text.encode(), file.name))
    if source is None:
        raise _no_recipe(None, file.parent, f"{PYPROJECT} has no [tool.wheel-bakery] table")
    return _recipe(source, file.parent, ".")


def farms(cwd: Path) -> tuple[Mapping[str, Farm], Path]:
    """Return the builders in the file of ``cwd``, by name, and the folder of their relative paths.

    Raises:
        RecipeError: the table is not valid; ``details`` has every problem.
    """
    source = find_table(cwd.absolute(), cwd.absolute())
    if source is None:
        return {}, cwd
    data = {key: value for key, value in source.data.items() if key == "builders"}
    source.check(_builder_problems(data))
    return Builders.model_validate(data, by_alias=True, by_name=False).builders or {}, source.file.parent


def from_python(recipe: Recipe, root: Path) -> Loaded:
    """Return a recipe that was made in Python; RecipeError if its fields contradict each other."""
    data = recipe.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    problems = _cross_problems(data)
    if problems:
        raise recipe_error(f"Recipe(name={recipe.name!r})", problems)
    return Loaded(recipe, None, root)


def _load_path(reference: str, cwd: Path) -> tuple[Loaded, ...]:
    path = Path(os.path.normpath(cwd / reference))
    if "\0" in reference or not exists(path):
        raise _no_recipe(reference, cwd, "there is no such file or folder")
    # A recipe of the workspace is the same if its folder is named.
    file = recipe_file(path) if is_folder(path) else path
    siblings = _workspace_siblings(cwd, file)
    if siblings:
        return siblings
    if is_folder(path):
        return _load_folder(path, cwd)
    source = open_table(path, cwd)
    if source is None:
        raise _no_recipe(reference, cwd, "it has no [tool.wheel-bakery] table")
    return _load_source(source, path.parent, cwd)


def _workspace_siblings(cwd: Path, file: Path | None) -> tuple[Loaded, ...]:
    """Return the recipe in ``file`` if it belongs to ``cwd``'s workspace; empty otherwise."""
    workspace_file = recipe_file(cwd)
    if file is None or workspace_file is None or resolved(file) == resolved(workspace_file):
        return ()
    recipes, _ = _members_of(cwd)
    return tuple(item for item in recipes if item.file is not None and resolved(item.file) == resolved(file))


def _load_name(name: str, cwd: Path) -> tuple[Loaded, ...]:
    recipes, errors = _members_of(cwd)
    if named := tuple(item for item in recipes if item.recipe.name == name):
        return named
    if recipe_file(cwd / name) is not None:
        return _load_path(name, cwd)
    file = shipped().get(name)
    if file is not None:
        return (_load_shipped(file, cwd, cwd),)
    if errors:
        # One of the recipes with errors may have this name.
        raise merged(errors)
    raise _no_recipe(name, cwd, "no recipe has this name", [item.recipe.name for item in recipes])


def _members_of(cwd: Path) -> tuple[list[Loaded], list[RecipeError]]:
    """Return the valid recipes in ``cwd``, and the errors of the others."""
    try:
        source = find_table(cwd, cwd)
        return _members(source, cwd, cwd) if source else ([], [])
    except RecipeError as error:
        return [], [error]


def _load_folder(folder: Path, cwd: Path) -> tuple[Loaded, ...]:
    source = find_table(folder, cwd)
    if source is None:
        has_pyproject = exists(folder / PYPROJECT)
        reason = f"{PYPROJECT} has no [tool.wheel-bakery] table" if has_pyproject else "the folder has none"
        raise _no_recipe(None if folder == cwd else shown_path(folder, cwd), folder, reason)
    return _load_source(source, folder, cwd)


def _load_source(source: RecipeFile, root: Path, cwd: Path) -> tuple[Loaded, ...]:
    recipes, errors = _members(source, root, cwd)
    if errors:
        raise merged(errors)
    return tuple(recipes)


def _members(source: RecipeFile, root: Path, cwd: Path) -> tuple[list[Loaded], list[RecipeError]]:
    """Return the valid recipes of a file and of its workspace, and the errors of the others."""
    if "workspace" not in source.data:
        return [_recipe(source, root, ".")], []
    workspace = _workspace(source)
    recipes = [_recipe(source, root, ".")] if recipe_part(source.data) else []
    problems: list[Problem] = []
    errors: list[RecipeError] = []
    for index, entry in enumerate(workspace.recipes):
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
    # Only recipes of wheels have a workflow.
    if item.recipe.ci is not None or item.recipe.image is not None:
        return item
    return replace(item, recipe=item.recipe.model_copy(update={"ci": ci}))


def _same_names(recipes: list[Loaded], cwd: Path) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for item in recipes:
        name, file = item.recipe.name, shown_path(item.file, cwd) if item.file else "."
        if name in seen:
            what = f"two recipes are named '{name}': {seen[name]} and {file}"
            yield Problem(("workspace", "recipes"), what, "rename one of them")
        seen.setdefault(name, file)


def _workspace(source: RecipeFile) -> Workspace:
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
        problems += _problems(source.data) if recipe_part(source.data) else []
        raise recipe_error(source.shown, map(source.located, problems))
    return Workspace.model_validate(table, by_alias=True, by_name=False)


def _member(entry: str, root: Path, cwd: Path) -> Loaded | tuple[str, str]:
    """Return the recipe that an entry of a workspace names, or a problem and its fix."""
    folder = root / entry
    file = shipped().get(entry)
    if file is not None and not exists(folder):
        return _load_shipped(file, root, cwd)
    if problem := _entry_problem(entry, folder, root):
        return problem
    source = find_table(folder, cwd)
    if source is None:
        return f"'{shorten(entry)}' contains no recipe", f"write {shorten(entry)}/{FILE}, or remove the entry"
    if "workspace" in source.data:
        return f"'{shorten(entry)}' is a workspace itself", "name its recipes here, one by one"
    return _recipe(source, root, PurePosixPath(entry).as_posix())


def _entry_problem(entry: str, folder: Path, root: Path) -> tuple[str, str] | None:
    if not is_inside(entry, root):
        what = f"'{shorten(entry)}' is outside the workspace"
        return what, "name a folder inside it, without '..' and without links that lead out"
    if not is_folder(folder):
        close = nearest(entry, shipped())
        hint = f"; did you mean {close!r}?" if close else ""
        what = f"'{shorten(entry)}' is neither a folder nor a shipped recipe{hint}"
        return what, f"shipped recipes: {', '.join(shipped()) or 'none'}"
    if resolved(folder) == resolved(root):
        return "this is the workspace's own folder", "remove it: a recipe in this file is always part of the workspace"
    return None


def _load_shipped(file: Path, root: Path, cwd: Path) -> Loaded:
    source = open_table(file, cwd)
    if source is None or "workspace" in source.data:
        raise RecipeError(f"the shipped recipe {file.stem} is damaged", hint="install wheel-bakery again")
    return _recipe(source, root, ".")


def _recipe(source: RecipeFile, root: Path, folder: str) -> Loaded:
    source.check([*_problems(source.data), *_builder_problems(source.data)])
    recipe = Recipe.model_validate(recipe_part(source.data), by_alias=True, by_name=False)
    return Loaded(recipe, source.file, root, folder, source.positions())


def _problems(data: Mapping[str, object]) -> list[Problem]:
    """Return the problems of the recipe in a file."""
    recipe = recipe_part(data)
    from_models = find_problems(Recipe, recipe)
    reported = {problem.path for problem in from_models}
    problems = [*from_models, *(problem for problem in _cross_problems(recipe) if problem.path not in reported)]
    return problems or list(override_problems(recipe, _without_overrides))


def _without_overrides(data: Mapping[str, object]) -> list[Problem]:
    matrix = data["matrix"]
    assert isinstance(matrix, dict)
    rest = {**data, "matrix": {key: value for key, value in matrix.items() if key != "overrides"}}
    return _problems(rest)


def _builder_problems(data: Mapping[str, object]) -> list[Problem]:
    """Return the problems of the builders in a file."""
    return find_problems(Builders, {"builders": data["builders"]}) if "builders" in data else []


def _cross_problems(data: Mapping[str, object]) -> tuple[Problem, ...]:
    return check(
        data,
        bases={name: base.crosses for name, base in registry.bases().items()},
        toolkits=(registry.ANY_CUDA, *registry.toolkits()),
        frameworks=tuple(registry.frameworks()),
        components=components.known(),
    )


def _no_recipe(reference: str | None, where: Path, reason: str, workspace: list[str] | None = None) -> RecipeError:
    named = f"no recipe '{shorten(reference)}'" if reference is not None else "no recipe here"
    recipe_names = [*(workspace or []), *shipped()]
    close = nearest(reference, recipe_names) if reference else None
    details = [reason, f"looked in {shorten(str(where), 200)} for {FILE}, and for [tool.wheel-bakery] in {PYPROJECT}"]
    if workspace:
        details.append(f"recipes of the workspace: {', '.join(workspace)}")
    details.append(f"shipped recipes: {', '.join(shipped()) or 'none'}")
    above = next((folder for folder in where.parents if reference is None and exists(folder / FILE)), None)
    if above:
        details.append(
            f"a folder above has one: `wheel-bakery -C {shlex.quote(os.path.relpath(above, where))} …` uses it"
        )
    written = f"`wheel-bakery init` writes a {FILE} for a project; or " if reference is None else ""
    hint = f"did you mean {close!r}?" if close else f"{written}name a folder that has one, or a shipped recipe"
    return RecipeError(named, hint=hint, details=details)
