"""The types of the recipe's models in words, for error messages and the reference."""

from __future__ import annotations

import types
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from bakery.recipe.models.base import Model

_PLURALS = {"text": "texts", "table": "tables", "text or table": "texts or tables"}

Step = str | int
"""One step of a path into a recipe: a key or an index."""


def bare(annotation: object) -> object:
    """Return ``annotation``, or that of a field, without ``| None`` and without constraints."""
    while True:
        annotation = annotation.annotation if isinstance(annotation, FieldInfo) else annotation
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif origin in (types.UnionType, Union):
            annotation = next(item for item in get_args(annotation) if item is not type(None))
        else:
            return annotation


def model_of(annotation: object) -> type[Model] | None:
    """Return the model in ``annotation``, also as the item of a list or the value of a table."""
    inner = bare(annotation)
    if isinstance(inner, type) and issubclass(inner, Model):
        return inner
    origin, arguments = get_origin(inner), get_args(inner)
    if origin is tuple:
        return model_of(arguments[0])
    return model_of(arguments[1]) if origin is dict else None


def choices(annotation: object) -> tuple[str, ...]:
    """Return the allowed values; empty if any text is allowed."""
    inner = bare(annotation)
    if get_origin(inner) is Literal:
        return tuple(str(item) for item in get_args(inner))
    if isinstance(inner, type) and issubclass(inner, StrEnum):
        return tuple(item.value for item in inner)
    return ()


def describe(annotation: object) -> str:
    """Return the type in words: ``list of texts``, ``true or false``, ``text or table``."""
    inner = bare(annotation)
    allowed = choices(inner)
    if allowed:
        return "one of " + ", ".join(allowed)
    if isinstance(inner, type) and issubclass(inner, Model):
        short = {"string": "text or ", "boolean": "true, false or "}
        return short.get(inner.short_form or "", "") + "table"
    origin, arguments = get_origin(inner), get_args(inner)
    if origin is tuple:
        return f"list of {_plural(arguments[0])}"
    if origin is dict:
        return f"table of {_plural(arguments[1])}"
    if inner is int:
        return f"whole number{_bounds(annotation)}"
    return "true or false" if inner is bool else "text"


def _bounds(annotation: object) -> str:
    """Return the limits of a number: `` from 1 to 1024``; empty for none."""
    limits: dict[str, object] = {}
    pending = [annotation]
    while pending:
        item = pending.pop()
        if isinstance(item, FieldInfo):
            pending += [item.annotation, *item.metadata]
        elif get_origin(item) is not None:
            pending += get_args(item)
        limits |= {key: getattr(item, key) for key in ("ge", "le") if getattr(item, key, None) is not None}
    words = [f"{word} {limits[key]}" for word, key in (("from", "ge"), ("to", "le")) if key in limits]
    return "".join(f" {item}" for item in words)


def _plural(annotation: object) -> str:
    words = describe(annotation)
    if words.startswith("list of "):
        return "lists of " + words.removeprefix("list of ")
    if words.startswith("table of "):
        return "tables of " + words.removeprefix("table of ")
    return _PLURALS.get(words, words)


def keys(model: type[Model]) -> dict[str, FieldInfo]:
    """Return the keys of ``model`` as files write them, in the order of the model."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def at(model: type[Model], path: Sequence[Step]) -> object:
    """Return the field or annotation at ``path`` (keys of files, indexes of lists), or None if the models have none."""
    annotation: object = model
    for step in path:
        inner = bare(annotation)
        if isinstance(inner, type) and issubclass(inner, Model):
            annotation = keys(inner).get(str(step))
            continue
        origin, arguments = get_origin(inner), get_args(inner)
        is_item = origin is tuple and isinstance(step, int)
        annotation = arguments[0] if is_item else arguments[1] if origin is dict else None
    return annotation
