"""Tables of recipes and what Bakery says of each: one TOML file for a kind, which ``--update-golden`` rewrites."""

from __future__ import annotations

import fcntl
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

_LITERAL = re.compile(r"[\t\n\x20-\x7e\x80-\U0010ffff]*")

Row = dict[str, str]
"""``recipe``, if it is a text that an editor keeps, and ``says``."""

GoldenRow = Callable[[Path, str, str], None]
"""Compare a text with that of a row: table, name, text."""


def rows(path: Path) -> dict[str, Row]:
    """Return the rows of a table: ``{"base-typo": {"recipe": …, "says": …}}``."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def update(path: Path, name: str, says: str) -> None:
    """Write what Bakery says now into a row; other processes may update other rows."""
    with path.open("r+", encoding="utf-8", newline="\n") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        table: dict[str, Row] = tomllib.loads(file.read())
        table.setdefault(name, {})["says"] = says
        file.seek(0)
        file.write(_toml(table))
        file.truncate()


def _toml(table: Mapping[str, Row]) -> str:
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {_text(value)}\n" for key, value in row.items())
        for name, row in sorted(table.items())
    )


def _text(value: str) -> str:
    is_literal = _LITERAL.fullmatch(value) and "'''" not in value and not value.endswith("'")
    return f"'''\n{value}'''" if is_literal else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
