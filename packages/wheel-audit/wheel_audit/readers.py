"""Reads texts of strangers within limits: JSON, and the format of setup.cfg.

The limits hold memory and time in proportion to the bytes that a caller lets in (`wheel_audit.plain_files.read_plain`,
by a limited answer of a server), and no value can surprise the code behind them: see `json_of`.
"""

from __future__ import annotations

import json
import math
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wheel_audit.plain_files import read_plain

MOST_BYTES = 64 << 20
"""Bytes of a JSON file, unless its reader says less."""

MOST_ENTRIES = 1_000_000
"""Values of a JSON text. An empty list or table needs about 80 bytes of memory."""

DEEPEST = 64
"""Levels of lists and tables of a JSON text."""

_DIGITS = 20
"""Digits of a whole number: more than 64 bits need none."""

_Hook = Callable[[list[tuple[str, Any]]], object]

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Unreadable(ValueError):
    """A text is malformed or exceeds a limit; the message says why in a few words."""


def json_of(data: bytes | str, *, entries: int = MOST_ENTRIES, table: _Hook | None = None) -> Any:
    """Return the value of a JSON text (UTF-8).

    Refused are more than ``entries`` values, more than `DEEPEST` levels, a key that is twice in a table, NaN and
    infinite numbers, whole numbers of more than 20 digits, and texts that are not Unicode. ``table`` makes a table of its
    pairs, in place of ``dict``, and may raise ValueError. Raises Unreadable.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        if len(text) > entries and _count(text) > entries and _count(_TEXT.sub("", text)) > entries:
            raise Unreadable(f"more than {entries:,} values")
        document = (_decoder(table) if table else _DECODER).decode(text)
        if text.count("[") + text.count("{") > DEEPEST:
            _check_depth(document)
        if _SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode()
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable(f"nested more than {DEEPEST} levels deep") from None
    except UnicodeError:
        raise Unreadable("not UTF-8") from None
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}"[:200]) from None
    return document


def read_json(path: Path, most: int = MOST_BYTES, *, follow: bool = False) -> Any:
    """Return the value of a JSON file of at most ``most`` bytes. Raises OSError as `read_plain`, and Unreadable."""
    return json_of(read_plain(path, most, follow=follow))


def _count(text: str) -> int:
    return sum(map(text.count, ",[{"))


def _check_depth(document: object) -> None:
    level = [document]
    for _ in range(DEEPEST + 1):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise Unreadable(f"nested more than {DEEPEST} levels deep")


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        # Readers differ in which one they take.
        raise Unreadable("a key is there twice")
    return result


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise Unreadable(f"a number of more than {_DIGITS} digits")
    return int(text)


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise Unreadable("a number that is not finite")
    return value


def _decoder(table: _Hook) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=table, parse_int=_whole, parse_float=_number, parse_constant=_number)


_DECODER = _decoder(_table)


def ini_of(text: str, *, delimiters: str = "=:", unique: bool = False) -> dict[str, Mapping[str, str]]:
    """Return section → option → value of a text such as setup.cfg, as `configparser.RawConfigParser` does.

    Unlike there, the time is linear, and names of options are as they are written. The lines of a value are joined by
    line ends. With ``unique``, a section or an option that is there twice is refused. Raises Unreadable with the line.
    """
    found: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] | None = None
    lines: list[str] | None = None
    indent = 0
    for number, line in enumerate(text.split("\n"), 1):
        value = line.strip()
        if value.startswith(("#", ";")):
            continue
        if not value:
            if lines is not None:
                lines.append("")
            continue
        now = len(line) - len(line.lstrip())
        if lines is not None and now > indent:
            lines.append(value)
            continue
        indent, lines = now, None
        if value.startswith("[") and (end := value.rfind("]")) > 1:
            name = value[1:end]
            if unique and name in found:
                raise Unreadable(f"line {number}: the section {name[:80]!r} is there twice")
            section = found.setdefault(name, {})
            continue
        cut = min((at for sign in delimiters if (at := value.find(sign)) >= 0), default=0)
        if section is None or not cut:
            what = "an option without a value" if section is not None else "no [section] above it"
            raise Unreadable(f"line {number}: {what}: {value[:80]!r}")
        option = value[:cut].rstrip()
        if unique and option in section:
            raise Unreadable(f"line {number}: the option {option[:80]!r} is there twice")
        lines = section[option] = [value[cut + 1 :].strip()]
    done = {name: {key: "\n".join(rows).rstrip() for key, rows in table.items()} for name, table in found.items()}
    shared = done.pop("DEFAULT", {})
    return {name: ChainMap(table, shared) for name, table in done.items()}
