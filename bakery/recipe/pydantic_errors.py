"""pydantic's errors about a recipe → problems in Bakery's own words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from bakery.core import cell_ids, names
from bakery.recipe import type_names
from bakery.recipe.models import Recipe
from bakery.recipe.models.base import INVALID, Model
from bakery.recipe.models.text import Matching, PlatformName, PythonVersion
from bakery.recipe.problems import Problem, describe, is_private, nearest, one_of, quoted, shorten
from bakery.recipe.type_names import Step

_KEY = "[key]"
"""pydantic's last step where a key, not its value, is wrong."""

_PYTHON = re.compile(r"(?:(?:cp|c?py(?:thon)?)[- ]?)?3\.?([0-9]{1,2})(?:\.[0-9]+)?(t?)\Z", re.IGNORECASE)
_MACHINES = {
    **dict.fromkeys(("x86_64", "x86-64", "x64", "amd64"), "amd64"),
    **dict.fromkeys(("aarch64", "arm64"), "arm64"),
}
_SYSTEMS = {
    "linux": "linux",
    **dict.fromkeys(("darwin", "macos", "macosx", "osx"), "macos"),
    **dict.fromkeys(("windows", "win"), "windows"),
}
_ELSEWHERE = {
    "archs": "the top of the file as platforms",
    "before-all": "[builder] as before-build",
    "build-frontend": "[wheel] as frontend",
    "packages": "[builder] as system-packages",
    "skip": "[matrix] as exclude",
    "test-requires": "[test] as requirements",
}
"""Keys of cibuildwheel and of other tools → where recipes have them."""

_WIDEST = 200
_MOST = 1000
"""Errors that become problems: each costs a comparison with all known keys."""
_RENAME = "rename it to "


def find_problems(model: type[Model], data: Mapping[str, object]) -> list[Problem]:
    """Return the problems that ``model`` finds in ``data``, the content of a file; none if it is valid."""
    try:
        model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        problems = [_problem(model, data, item) for item in errors[:_MOST]]
        # A key that is missing because it was misspelt is one problem, not two.
        renamed = {(*problem.path[:-1], problem.meant) for problem in problems if problem.meant}
        problems = [
            problem
            for problem, item in zip(problems, errors, strict=False)
            if item["type"] != "missing" or problem.path not in renamed
            # A list whose entries are all malformed is not empty.
            if item["type"] != "too_short" or not _has_inner(problem.path, problems)
        ]
        more = len(errors) - _MOST
        return [*problems, Problem((), f"{more} more problems", "correct the others first")] if more > 0 else problems
    except RecursionError:
        return [Problem((), "lists or tables are nested too deeply", "a recipe needs at most four levels")]
    return []


def _has_inner(path: tuple[Step, ...], problems: Iterable[Problem]) -> bool:
    return any(len(other.path) > len(path) and other.path[: len(path)] == path for other in problems)


def unknown_key(key: str, model: type[Model], path: tuple[Step, ...]) -> Problem:
    """Return the problem of ``key``, which the table at ``path`` of ``model`` does not have."""
    keys = tuple(type_names.keys(model))
    if model is Recipe:
        keys = (*keys, "workspace", "builders")
    close = nearest(key, keys)
    homes = [] if close else [_ELSEWHERE[key]] if key in _ELSEWHERE else _homes(key)
    if close:
        what, fix = f"unknown key; did you mean {close!r}? (expected one of: {one_of(keys)})", _RENAME + close
    elif homes:
        what = f"unknown key here (expected one of: {one_of(keys)})"
        fix = f"move it to {' or '.join(homes)}"
    else:
        what, fix = f"unknown key (expected one of: {one_of(keys)})", "remove it"
    return Problem((*path, key), what, fix, meant=close or "")


def _homes(key: str) -> list[str]:
    """Return the tables that do have ``key``, or have it without their own name: ``test-command`` is ``command``."""
    tables = dict(_tables(Recipe))
    for title, model in tables.items():
        inner = key.removeprefix(f"{title.rpartition('.')[2]}-")
        if inner != key and inner in type_names.keys(model):
            return [f"[{title}] as {inner}"]
    homes = [f"[{title}]" for title, model in tables.items() if key in type_names.keys(model)]
    return [*homes, "the top of the file"] if key in type_names.keys(Recipe) else homes


def _tables(model: type[Model], above: str = "") -> Iterator[tuple[str, type[Model]]]:
    """Yield the dotted names of the tables in a model, those of the top first, without tables whose keys are free."""
    inner = [
        (f"{above}{name}", table)
        for name, field in type_names.keys(model).items()
        if name not in ("variables", "secrets") and (table := type_names.model_of(field.annotation))
    ]
    yield from inner
    for title, table in inner:
        yield from _tables(table, f"{title}.")


def _problem(model: type[Model], data: Mapping[str, object], error: ErrorDetails) -> Problem:
    location = error["loc"]
    is_key = location[-1:] == (_KEY,) and not _holds(data, location)
    if is_key:
        location = location[:-1]
    kind, value = error["type"], error["input"]
    path = _as_written(location, data)
    if kind == "extra_forbidden":
        parent = type_names.model_of(type_names.at(model, location[:-1])) or model
        return unknown_key(str(location[-1]), parent, path[:-1])
    if kind == "missing":
        return _missing(model, location, path)
    annotation = type_names.at(model, location)
    if kind == INVALID:
        return _invalid(error["ctx"], value, path, annotation, is_key=is_key)
    if kind.endswith("_type") or kind in ("enum", "literal_error"):
        return _wrong_type(annotation, value, path)
    expected, fix = {
        "too_short": ("at least one entry", "add one, or remove the key"),
        "too_long": (f"at most {error.get('ctx', {}).get('max_length')} entries", "remove some"),
    }.get(kind, (_a(type_names.describe(annotation)), "change the value"))
    return Problem(path, f"expected {expected}, found {describe(value, path)}", fix)


def _as_written(location: Sequence[Step], data: Mapping[str, object]) -> tuple[Step, ...]:
    """Return ``location`` without the steps that a short form leaves out of the file."""
    path: list[Step] = []
    here: object = data
    for number, step in enumerate(location):
        is_last = number == len(location) - 1
        inside = _inside(here, step)
        if inside is not None:
            here = inside
        elif step == "axes" and path == ["matrix"]:
            continue
        elif not (isinstance(here, dict) and is_last):
            break
        path.append(step)
    return tuple(path)


def _inside(here: object, step: Step) -> object:
    """Return the value at ``step``; None for none, since TOML has no null."""
    if isinstance(here, list) and isinstance(step, int) and step < len(here):
        return here[step]
    return here.get(step) if isinstance(here, dict) else None


def _holds(data: object, location: Sequence[Step]) -> bool:
    for step in location:
        data = _inside(data, step)
    return data is not None


def _missing(model: type[Model], location: Sequence[Step], path: tuple[Step, ...]) -> Problem:
    annotation, key = type_names.at(model, location), str(location[-1])
    kind = type_names.describe(annotation)
    texts = (type_names.model_of(type_names.at(model, location[:-1])) or model).descriptions()
    about = " ".join(texts.get(key, "").replace("``", "'").split())
    what = f"missing; expected {_a(kind)}" + (f": {about[0].lower()}{about[1:].rstrip('.')}" if about else "")
    sample = '"my-kernels"' if key == "name" else _sample(kind)
    return Problem(path, what, f"add {key} = {sample}", json_fix=f'add "{key}": {sample}')


def _sample(kind: str) -> str:
    if kind.startswith("list"):
        return '["…"]'
    return '{ NAME = "…" }' if kind.startswith("table") else '"…"'


def _invalid(
    context: Mapping[str, Any], value: object, path: tuple[Step, ...], annotation: object, *, is_key: bool
) -> Problem:
    """Return the problem of a value that a validator of the models refused."""
    what = context["message"]
    if context["got"] and not (context["quotes_value"] and is_private(path, value)):
        what += f", got {context['got']}"
    what = shorten(what, _WIDEST)
    is_leaf = not isinstance(value, dict | list | tuple)
    if is_leaf and not is_key:
        what += f", found {describe(value, path)}"
    close = _respelled(str(value), annotation) if is_leaf else None
    if close:
        return Problem(path, f"{what}; did you mean {close!r}?", f'write "{close}"')
    general = _key_advice(str(value)) if is_key else "choose another value"
    return Problem(path, what, context["hint"] or general)


def _key_advice(key: str) -> str:
    capital, small = key.upper().replace("-", "_"), key.lower().replace("_", "-")
    if names.VARIABLE.match(capital) and not names.VARIABLE.match(key):
        return _RENAME + shorten(capital)
    return _RENAME + shorten(small) if names.AXIS.match(small) else "use letters, digits and underscores"


def _respelled(value: str, annotation: object) -> str | None:
    """Return the Python version or platform that ``value`` is another spelling of, or None."""
    if annotation == PythonVersion:
        match = _PYTHON.match(value)
        close = f"3.{int(match[1])}{match[2].lower()}" if match else None
        return close if close and names.PYTHON.match(close) else None
    return _platform(value) if annotation == PlatformName else None


def _platform(value: str) -> str | None:
    parts = [
        part
        for part in re.split(r"[/:,\s]|(?<=linux)[-_]|(?<=macos)[-_]|(?<=macosx)[-_]|(?<=win)[-_]", value.lower())
        if part
    ]
    system = next((_SYSTEMS[part] for part in parts if part in _SYSTEMS), "linux")
    rest = [part for part in parts if part not in _SYSTEMS and part != "v8"]
    machine = _MACHINES.get(rest[0]) if len(rest) == 1 else None
    return f"{system}/{machine}" if machine else nearest(value, cell_ids.MACHINES, 0.8)


def _wrong_type(annotation: object, value: object, path: tuple[Step, ...]) -> Problem:
    kind, allowed = type_names.describe(annotation), type_names.choices(annotation)
    what = f"expected {_a(kind)}, found {describe(value, path)}"
    if allowed:
        return _not_a_choice(value, path, allowed, what)
    if (
        kind == "text"
        and (matching := _matching(annotation))
        and not matching.takes(str(quoted(value) or "").strip('"'))
    ):
        return Problem(
            path,
            f"expected {matching.expected}, found {describe(value, path)}",
            matching.advice(str(value)) or "write it so, in quotes",
        )
    json_fix = "put it in square brackets: [{ … }]" if _is_single_table(kind, value) else ""
    return Problem(path, what, _type_advice(kind, value, path), json_fix=json_fix)


def _matching(annotation: object) -> Matching | None:
    """Return the pattern of a text; None without one."""
    pending = [annotation]
    while pending:
        item = pending.pop()
        if isinstance(item, Matching):
            return item
        pending += item.metadata if isinstance(item, FieldInfo) else get_args(item)
        pending += [item.annotation] if isinstance(item, FieldInfo) else []
    return None


def _is_single_table(kind: str, value: object) -> bool:
    return kind.startswith("list of tables") and isinstance(value, dict)


def _type_advice(kind: str, value: object, path: tuple[Step, ...]) -> str:
    advice = _retyped(kind, value)
    if advice:
        return advice.partition(":")[0] if is_private(path, value) else advice
    if kind.startswith("true") and not isinstance(value, dict | list):
        return "write true or false, without quotes"
    if kind.startswith("whole number"):
        digits = isinstance(value, str) and value.isascii() and value.isdigit()
        return f"write {shorten(str(value))}, without quotes" if digits else "write it in digits, without quotes"
    if kind.startswith("text") and isinstance(value, list):
        return 'write one text: "…"'
    if "table" in kind and not kind.startswith("list"):
        return _table_advice(path)
    return f"write {_a(kind)}: {_sample(kind)}"


def _retyped(kind: str, value: object) -> str:
    """Return how ``value`` itself would be written as ``kind``; empty where it cannot be."""
    if kind.startswith("text") and quoted(value) is not None:
        return f"put it in quotes: {quoted(value)}"
    text = f'"{shorten(value)}"' if isinstance(value, str) else quoted(value)
    if kind.startswith("list of text") and text is not None:
        return f"put it in square brackets: [{text}]"
    if _is_single_table(kind, value):
        return "put it in square brackets: [{ … }], or write [[…]] above it"
    return ""


def _table_advice(path: Sequence[Step]) -> str:
    title = ".".join(str(step) for step in path)
    if not path or any(isinstance(step, int) for step in path):
        return "write { key = value }"
    return f"write [{shorten(title)}] and its keys on lines of their own, or {{ key = value }}"


def _not_a_choice(value: object, path: tuple[Step, ...], allowed: Iterable[str], what: str) -> Problem:
    close = nearest(value, allowed) if isinstance(value, str) else None
    if close:
        return Problem(path, f"{what}; did you mean {close!r}?", f'write "{close}"')
    return Problem(path, what, "choose one of these, in quotes")


def _a(kind: str) -> str:
    return f"a {kind}" if kind.startswith(("list", "table", "whole")) else kind
