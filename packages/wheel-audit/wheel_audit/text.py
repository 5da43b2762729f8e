"""Text of strangers: safe to show."""

from __future__ import annotations

import re


def printable(text: str, keep: str = "") -> str:
    """Return ``text`` with unprintable characters escaped, except ``keep`` (line breaks, tabs): it must not control the terminal."""
    if text.isprintable():
        return text
    # A search is faster than a look at each character.
    return re.sub(f"[^ -~{keep}]", lambda at: at[0] if at[0].isprintable() else ascii(at[0])[1:-1], text)


def printable_json(text: str) -> str:
    """Return JSON text of the same meaning with unprintable characters escaped; they are in strings only."""
    if text.isprintable():
        return text
    return re.sub("[^ -~\n\t]", lambda at: at[0] if at[0].isprintable() else _json_escape(at[0]), text)


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
