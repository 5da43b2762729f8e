"""Where the values of a recipe come from: dotted path → (value as text, its origin). For display only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from pydantic import BaseModel

from bakery.recipe import type_names
from bakery.recipe.load import Loaded
from bakery.recipe.models import Override, Recipe, Secret
from bakery.recipe.models.base import Model


def origins_of(loaded: Loaded) -> dict[str, tuple[str, str]]:
    """Return the values that a recipe sets, without those of variables, and the defaults of all other keys."""
    written = dict(_written(loaded.recipe, ""))
    origins = {
        path: (text, "default")
        for path, text in _default_texts().items()
        # Another source takes the place of the folder.
        if (path != "source.path" or "source" not in loaded.recipe.model_fields_set)
        and (path != "matrix.overrides" or not loaded.recipe.matrix.overrides)
    }
    return origins | {path: (as_text(value), place(loaded, path)) for path, value in written.items()}


def place(loaded: Loaded, path: str) -> str:
    """Return file and line that set a value; ``python`` for a recipe that was made in Python."""
    where = loaded.file.name if loaded.file else "python"
    # A short form has the line of its table.
    line = loaded.positions.get(path) or loaded.positions.get(path.rpartition(".")[0])
    return f"{where}:{line}" if line else where


def as_text(value: object) -> str:
    """Return a value of a recipe as a text for people."""
    if isinstance(value, Secret):
        origin = value.env or value.file or value.command
        return f"{as_text(origin)} → {', '.join(value.steps)}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return "" if value is None else str(value)


def _changes(override: Override, path: str) -> Iterator[tuple[str, str]]:
    """Yield what an override sets, and for which cells."""
    cells = as_text(override.where) or "all cells"
    tables: dict[str, Mapping[str, object]] = {"variables": override.variables, **override.tables}
    for table, values in tables.items():
        for key, value in values.items():
            yield f"{path}.{table}.{key}", f"{as_text(value)} for {cells}"


@cache
def _default_texts() -> Mapping[str, str]:
    return {path: as_text(value) for path, value in _defaults(Recipe, "")}


def _defaults(model: type[Model], prefix: str) -> Iterator[tuple[str, object]]:
    for key, field in type_names.keys(model).items():
        path, inner = prefix + key, type_names.bare(field.annotation)
        if isinstance(inner, type) and issubclass(inner, Model):
            yield from _defaults(inner, f"{path}.")
        if isinstance(field.default, Model):
            yield from _written(field.default, f"{path}.")
        elif not (field.is_required() or field.default is None or path in ("matrix.axes", "secrets", "variables")):
            yield path, field.default


def _written(model: BaseModel, prefix: str) -> Iterator[tuple[str, object]]:
    """Yield dotted path and value of every field that is set, as a recipe writes it."""
    for name, field in type(model).model_fields.items():
        value, path = getattr(model, name), prefix + (field.alias or name)
        if value is None or name not in model.model_fields_set:
            continue
        if isinstance(value, BaseModel):
            yield from _written(value, path + ".")
        elif path == "matrix.axes":
            yield from ((f"matrix.{axis}", items) for axis, items in value.items())
        elif path == "matrix.overrides":
            yield from (item for index, override in enumerate(value) for item in _changes(override, f"{path}[{index}]"))
        elif path == "secrets":
            yield from ((f"secrets.{key}", item) for key, item in value.items())
        elif path != "variables":
            yield path, value
