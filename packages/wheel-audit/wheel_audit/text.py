"""Text of strangers: safe to show."""

from __future__ import annotations

import re
from collections.abc import Iterable


def printable(text: str, keep: str = "") -> str:
    """Return ``text`` with unprintable characters escaped, except ``keep`` (line breaks, tabs): it must not control the terminal."""
    if text.isprintable():
        return text
    # A search is faster than a look at each character.
    return re.sub(f"[^ -~{keep}]", lambda at: at[0] if at[0].isprintable() else ascii(at[0])[1:-1], text)


def listed(texts: Iterable[str], most: int = 3, noun: str = "") -> str:
    """Return texts in one line, with the number of those beyond the first ``most``: ``a, b and 3 more``.

    ``noun`` says what they are, for one of them.
    """
    items = list(texts)
    more = len(items) - most
    unit = f" {noun}{'s' if more > 1 else ''}" if noun else ""
    return ", ".join(items[:most]) + (f" and {more} more{unit}" if more > 0 else "")


def first_lines(lines: Iterable[str], most: int) -> list[str]:
    """Return the first ``most`` lines, and one with the number of the others: ``and 3 more``."""
    items = list(lines)
    return [*items[:most], *([f"and {len(items) - most} more"] if items[most:] else [])]


def printable_json(text: str) -> str:
    """Return JSON text of the same meaning with unprintable characters escaped; they are in strings only."""
    if text.isprintable():
        return text
    return re.sub("[^ -~\n\t]", lambda at: at[0] if at[0].isprintable() else _json_escape(at[0]), text)


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
