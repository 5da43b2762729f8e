"""Reads what a wheel must be from a TOML file: the fields of `ExpectedWheel`, without ``source``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from packaging.version import VERSION_PATTERN

from wheel_audit.expected_wheel import ExpectedFolder, ExpectedWheel
from wheel_audit.plain_files import read_plain
from wheel_audit.requirements import parse_requirement
from wheel_audit.tags import is_taken, parse_platform

LARGEST = 1 << 20
"""Bytes of such a file."""

_TEXT, _FLAG, _NUMBER, _TEXTS = "a string", "true or false", "a whole number", "an array of strings"
_TABLES = 'an array of tables, such as [[folders]] with folder = "demo/cu12" and cuda = "12.8"'
_KINDS = {
    "bool | None": _FLAG,
    "bool": _FLAG,
    "int | None": _NUMBER,
    "tuple[str, ...]": _TEXTS,
    "tuple[ExpectedFolder, ...]": _TABLES,
}
_KEYS, _FOLDER_KEYS = (
    {item.name: _KINDS.get(str(item.type), _TEXT) for item in fields(table) if item.name != "source"}
    for table in (ExpectedWheel, ExpectedFolder)
)


def _pattern(text: str) -> Callable[[str], object]:
    return re.compile(text, re.VERBOSE | re.IGNORECASE | re.ASCII).fullmatch


_PYTHON = _pattern(r"[23]\.\d{1,2}t?"), 'a release of Python, such as "3.11" or "3.14t"'
_FORMS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "name": (_pattern(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?"), 'the name of a project, such as "demo-kernels"'),
    "version": (_pattern(VERSION_PATTERN), 'a version, such as "1.0" or "1.0+cu128"'),
    "python": _PYTHON,
    "pythons": _PYTHON,
    "platform": (_pattern(r"(?:linux|macos|windows)/\w+(?:/v\d)?"), 'a system and a machine, such as "linux/amd64"'),
    "max_glibc": (_pattern(r"\d{1,2}\.\d{1,3}"), 'a release of glibc, such as "2.28"'),
    "plat": (
        lambda text: is_taken(tag := parse_platform(text)) and tag.system != "other",
        'a platform tag, such as "manylinux_2_28_x86_64"',
    ),
    "device_archs": (_pattern(r"(?:sm|compute|lto)_\d{2,3}[af]?"), 'GPU code, such as "sm_90a" or "compute_90"'),
    "cuda": (_pattern(r"|\d{1,2}(?:\.\d{1,2}){0,2}"), 'a release of CUDA, such as "12.8"'),
    "requires": (parse_requirement, 'a requirement, such as "torch==2.11.*"'),
    "cxx_abi": (_pattern("|cxx11|old"), '"cxx11" or "old"'),
    "torch_abi": (_pattern(r"|\d{1,2}\.\d{1,2}"), 'a release of torch, such as "2.10"'),
}
"""Key → what each of its strings must be, and its description with an example."""


def read_expected(path: Path) -> ExpectedWheel:
    """Return what a file expects of a wheel. Raises OSError, or ValueError with all problems, a line each."""
    try:
        document = tomllib.loads(read_plain(path, LARGEST, follow=True).decode())
    except RecursionError:
        raise ValueError(f"{path}: nested too deep") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if problems := list(_problems(document, _KEYS)):
        raise ValueError("\n".join(f"{path}: {text}" for text in problems))
    folders = tuple(ExpectedFolder(**_values(item)) for item in document.pop("folders", ()))
    return ExpectedWheel(**_values(document), folders=folders)


def _values(table: Mapping[str, object]) -> dict[str, Any]:
    return {key: tuple(item) if isinstance(item, list) else item for key, item in table.items()}


def _problems(table: Mapping[str, object], keys: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the entries of a table."""
    for key, value in table.items():
        if key not in keys:
            near = get_close_matches(key, keys, n=1)
            yield f"{key[:60]}: unknown key; " + (
                f"did you mean {near[0]}?" if near else f"known are {', '.join(keys)}"
            )
        elif not _is(keys[key], value):
            yield f"{key}: expected {keys[key]}"
        elif key in _FORMS:
            is_right, wanted = _FORMS[key]
            texts = [str(item) for item in (value if isinstance(value, list) else [value])]
            yield from (f"{key}: expected {wanted}, not {text[:60]!r}" for text in texts if not is_right(text))
        elif isinstance(value, list) and keys[key] == _TABLES:
            yield from (f"folders: {text}" for item in value for text in _problems(item, _FOLDER_KEYS))


def _is(kind: str, value: object) -> bool:
    if isinstance(value, list):
        tables = kind == _TABLES and all(isinstance(item, dict) and "folder" in item for item in value)
        return tables or (kind == _TEXTS and all(isinstance(item, str) for item in value))
    return type(value) is {_TEXT: str, _FLAG: bool, _NUMBER: int}.get(kind)
