"""Draft → TOML text of at most `MOST_LINES` lines, and the file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from bakery.core.errors import OutputError
from bakery.core.files import read_plain
from bakery.init.draft import KEYS, TABLES, Draft, Entry
from bakery.init.findings import Rest
from bakery.recipe.files import PYPROJECT
from bakery.recipe.toml_file import LARGEST

MOST_LINES = 20
_WIDTH = 120
_LONGEST, _SHORTEST = 90, 50
"""Characters of a comment beside a short line, and beside a long one."""


def recipe_text(draft: Draft, *, prefix: str = "") -> str:
    """Return the text of a recipe; a draft that is too long loses optional keys, which its notes then name.

    Args:
        prefix: what stands before the name of each table, such as ``tool.bakery``.
    """
    while True:
        entries = list(draft.entries.values())
        for layout in (_spaced, _dense, _dotted):
            text = layout(draft.title, entries, prefix)
            if text.count("\n") <= MOST_LINES:
                return text
        path = next((path for path, entry in reversed(draft.entries.items()) if entry.is_optional), None)
        if path is None:
            return text
        place = draft.entries.pop(path).reason
        draft.rest.append(Rest(f"{path} ({place})", f"the recipe would have more than {MOST_LINES} lines"))


def _title(title: str) -> str:
    return f"# Written by `wheel-bakery init`: {title}"[:_WIDTH]


def _spaced(title: str, entries: list[Entry], prefix: str, gap: str = "\n") -> str:
    """Return a table for each part, with a blank line before it."""
    text = _title(title) + "\n"
    for table in TABLES:
        members = sorted((entry for entry in entries if entry.table == table), key=_position)
        name = ".".join(filter(None, (prefix, table)))
        if members and name:
            text += f"{gap}[{name}]\n"
        text += "".join(f"{_line(entry, toml_key(entry.key))}\n" for entry in members)
    return text


def _dense(title: str, entries: list[Entry], prefix: str) -> str:
    """Return the same without blank lines."""
    return _spaced(title, entries, prefix, gap="")


def _dotted(title: str, entries: list[Entry], prefix: str) -> str:
    """Return one table with dotted keys."""
    ordered = sorted(entries, key=lambda entry: (TABLES.index(entry.table), _position(entry)))
    keys = (".".join(filter(None, (entry.table, toml_key(entry.key)))) for entry in ordered)
    lines = [_line(entry, key) for entry, key in zip(ordered, keys, strict=True)]
    return "\n".join((_title(title), *([f"[{prefix}]"] if prefix else []), *lines)) + "\n"


def _position(entry: Entry) -> int:
    return KEYS.index(entry.key) if entry.key in KEYS else len(KEYS)


def _line(entry: Entry, key: str) -> str:
    assignment = f"{key} = {toml_value(entry.value)}"
    reason = "".join(char if char.isprintable() else "?" for char in entry.reason)
    room = max(_SHORTEST if len(assignment) > _WIDTH // 2 else _LONGEST, _WIDTH - len(assignment) - 4)
    if len(reason) > room:
        reason = reason[: room - 1].rstrip() + "…"
    return f"{assignment}  # {reason}" if reason else assignment


def toml_key(key: str) -> str:
    """Return a key as TOML writes it."""
    return key if key and all(char.isascii() and (char.isalnum() or char in "-_") for char in key) else toml_value(key)


def toml_value(value: object) -> str:
    """Return a text, a truth value, a list or a table as TOML writes it, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{toml_key(key)} = {toml_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # JSON's strings are TOML's, but for DEL.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def create(file: Path, text: str) -> None:
    """Write a new file.

    Raises:
        OutputError: it exists, or it cannot be written.
    """
    try:
        # A link of that name is not followed.
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        raise already(file.name) from None
    except OSError as error:
        raise _unwritable(file, error) from error


def append(file: Path, text: str, before: bytes) -> None:
    """Write pyproject.toml with a table at its end.

    Args:
        before: its content when it was read.

    Raises:
        OutputError: it has changed since then, it is a link, or it cannot be written.
    """
    scratch = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        if read_plain(file, LARGEST, follow=False) != before:
            raise OutputError(f"{file.name} was changed in the meantime", hint="run the command again")
        ending = b"" if before.endswith(b"\n") or not before else b"\n"
        newline = b"\r\n" if b"\r\n" in before else b"\n"
        with scratch.open("xb") as stream:
            stream.write(before + ending + newline + text.encode().replace(b"\n", newline))
        scratch.chmod(file.stat().st_mode & 0o777)
        scratch.replace(file)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise _unwritable(file, error) from error


def already(name: str) -> OutputError:
    """Return the error for a recipe that exists."""
    what = "pyproject.toml has [tool.bakery] already" if name == PYPROJECT else f"{name} exists already"
    return OutputError(what, hint="change it, or remove it first; `wheel-bakery check` finds its problems")


def _unwritable(file: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot write {file.name}: {(error.strerror or str(error)).lower()}", hint="check permissions and space"
    )
