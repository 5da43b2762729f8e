"""Reads what a wheel must be from a TOML file: the fields of `ExpectedWheel`, without ``source``."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.plain_files import read_plain

LARGEST = 1 << 20
"""Bytes of such a file."""

_TEXT, _FLAG, _NUMBER, _TEXTS = "a string", "true or false", "a whole number", "an array of strings"
_KINDS = {"bool | None": _FLAG, "bool": _FLAG, "int | None": _NUMBER, "tuple[str, ...]": _TEXTS}
_KEYS = {item.name: _KINDS.get(str(item.type), _TEXT) for item in fields(ExpectedWheel) if item.name != "source"}


def read_expected(path: Path) -> ExpectedWheel:
    """Return what a file expects of a wheel. Raises OSError, or ValueError with all problems, a line each."""
    try:
        document = tomllib.loads(read_plain(path, LARGEST, follow=True).decode())
    except RecursionError:
        raise ValueError(f"{path}: nested too deep") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    problems = [text for key, value in document.items() if (text := _problem(key, value))]
    if document.get("cxx_abi", "") not in ("", "cxx11", "old"):
        problems.append('cxx_abi: expected "cxx11" or "old"')
    if problems:
        raise ValueError("\n".join(f"{path}: {text}" for text in problems))
    values: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in document.items()}
    return ExpectedWheel(**values)


def _problem(key: str, value: object) -> str:
    """Return what is wrong with an entry; empty if nothing is."""
    if key not in _KEYS:
        near = get_close_matches(key, _KEYS, n=1)
        return f"{key[:60]}: unknown key; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(_KEYS)}")
    wanted = _KEYS[key]
    is_right = {
        _TEXT: isinstance(value, str),
        _FLAG: isinstance(value, bool),
        _NUMBER: isinstance(value, int) and not isinstance(value, bool),
        _TEXTS: isinstance(value, list) and all(isinstance(item, str) for item in value),
    }[wanted]
    return "" if is_right else f"{key}: expected {wanted}"
