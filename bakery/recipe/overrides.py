"""Settings for some cells: ``[[matrix.overrides]]`` with tables of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from bakery.recipe.models import Override, Recipe
from bakery.recipe.problems import Problem

ADDED_TO = ("environment", "config-settings")
"""Keys whose tables an override adds to; of every other key it replaces the value."""

_FOR_ALL = {"builder": ("compiler-cache", "cross"), "wheel": ("max-project-size", "max-growth"), "test": ("gpu",)}
"""Keys that are of all cells: they decide which targets and jobs there are."""


def changed(recipe: Recipe, overrides: Iterable[Override]) -> Recipe:
    """Return the recipe of the cells that overrides match, the last one with precedence.

    Raises:
        ValidationError: the overrides, each of them valid, contradict each other.
    """
    tables = [tables for item in overrides if (tables := item.tables)]
    if not tables:
        return recipe
    data: dict[str, object] = recipe.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    for item in tables:
        data = _merged(data, item)
    return Recipe.model_validate(data, by_alias=True, by_name=False)


def override_problems(
    data: Mapping[str, object], problems_of: Callable[[Mapping[str, object]], Iterable[Problem]]
) -> Iterator[Problem]:
    """Yield the problems of a valid recipe's overrides, each of them with the rest of the recipe.

    ``problems_of`` returns the problems of a recipe.
    """
    matrix = data.get("matrix")
    entries = matrix.get("overrides", []) if isinstance(matrix, dict) else []
    for index, entry in enumerate(entries):
        place = ("matrix", "overrides", index)
        tables = {name: entry[name] for name in Override.TABLES if name in entry}
        if not tables and "variables" not in entry:
            yield Problem(place, "it changes nothing", f"add variables = {{ … }}, or {', '.join(Override.TABLES)}")
        for name, keys in _FOR_ALL.items():
            for key in (key for key in keys if key in tables.get(name, ())):
                what = "this is a setting of all cells, and no override can change it"
                yield Problem((*place, name, key), what, f"set it in [{name}]")
        for problem in problems_of(_merged(data, tables)) if tables else ():
            # No override changes a secret, whose steps may be those of other cells.
            if problem.path[:1] == ("secrets",):
                continue
            inside = problem.path[:1] and problem.path[0] in tables
            yield Problem((*place, *problem.path) if inside else place, problem.what, problem.fix)


def _merged(data: Mapping[str, object], tables: Mapping[str, object]) -> dict[str, object]:
    result = dict(data)
    for name, table in tables.items():
        before = result.get(name)
        if not isinstance(before, dict) or not isinstance(table, dict):
            result[name] = table
            continue
        own = {**before, **table}
        for key in ADDED_TO:
            old, new = before.get(key), table.get(key)
            if isinstance(old, dict) and isinstance(new, dict):
                own[key] = {**old, **new}
        result[name] = own
    return result
