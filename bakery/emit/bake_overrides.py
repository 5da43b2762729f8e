"""Inheritance and ``--set`` of targets, as in ``docker buildx bake`` (bake/bake.go, newOverrides and AddOverrides)."""

from __future__ import annotations

import csv
import fnmatch
from collections.abc import Mapping, Sequence

from bakery.plan.options import Override
from bakery.plan.values import Json

_LISTS = ("tags", "cache-from", "cache-to")
_FLAGS = ("no-cache", "pull")

Attributes = dict[str, Json]


def merged(parent: Mapping[str, Json], child: Mapping[str, Json]) -> Attributes:
    """Return inherited and own attributes: maps are merged by key, ``cache-from`` is joined, others are replaced."""
    result: Attributes = dict(parent)
    for key, value in child.items():
        before = result.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            result[key] = {**before, **value}
        elif key == "cache-from" and isinstance(before, list) and isinstance(value, list):
            result[key] = _distinct([*before, *value])
        else:
            result[key] = value
    return result


def overridden(attributes: Attributes, name: str, overrides: Sequence[Override]) -> Attributes:
    """Return the attributes of target ``name`` with the overrides whose pattern matches it."""
    result = dict(attributes)
    matching = [override for override in overrides if fnmatch.fnmatchcase(name, override.pattern)]
    for key in dict.fromkeys(override.key for override in matching):
        # One list for each key, in order; the last operator decides whether it adds or replaces.
        values = [override for override in matching if override.key == key]
        last = values[-1]
        head, _, sub = key.partition(".")
        if head in _LISTS:
            items = [item for override in values for item in _items(head, override.value)]
            before = result.get(head)
            result[head] = _distinct([*(before if last.append and isinstance(before, list) else []), *items])
        elif sub:
            before = result.get(head)
            result[head] = {**(before if isinstance(before, dict) else {}), sub: last.value}
        else:
            result[head] = last.value == "true" if head in _FLAGS else last.value
    return _without_empty(result)


def _items(key: str, text: str) -> list[Json]:
    """Return the entries of an override of a list; caches are CSV, or names of images."""
    if not text or key == "tags":
        return [text] if text else []
    fields = next(csv.reader([text], strict=True), [])
    if not any("=" in field for field in fields):
        return [{"type": "registry", "ref": field} for field in fields]
    return [{name.lower(): value for name, _, value in (field.partition("=") for field in fields)}]


def _without_empty(attributes: Attributes) -> Attributes:
    """Remove what buildx removes: empty lists, and contexts with an empty value."""
    contexts = attributes.get("contexts")
    if isinstance(contexts, dict):
        attributes["contexts"] = {name: value for name, value in contexts.items() if value}
    return {key: value for key, value in attributes.items() if value not in ([], {})}


def _distinct(items: Sequence[Json]) -> list[Json]:
    return [item for index, item in enumerate(items) if item not in items[:index]]
