"""Text for people, and untrusted text, regular expressions and JSON: safe to show, to match, to read."""

from __future__ import annotations

import base64
from typing import Protocol


def size_text(size: float) -> str:
    """Return a size in bytes for people: ``10.74 GB``, ``1.2 MB`` or ``340 kB``."""
    if size >= 1e9:
        return f"{size / 1e9:.2f} GB"
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8; text that was decoded from other bytes has surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def is_line(text: str) -> bool:
    """Whether a text is one line of Unicode text without control characters."""
    return is_unicode(text) and not any(ord(char) < 32 or ord(char) == 127 for char in text)


class LinearPattern(Protocol):
    """A compiled expression of RE2, which matches in time proportional to the text (docs/decisions/0012-re2.md)."""

    def fullmatch(self, text: str) -> object | None:
        """Return a match of the whole text, or None."""


def compile_linear(text: str) -> LinearPattern:
    """Compile an untrusted expression. Raises ValueError if RE2 refuses it."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 256 << 20
    try:
        compiled: LinearPattern = re2.compile(text, options)
        return compiled
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None


def matches_whole(pattern: str, value: str) -> bool:
    """Whether a pattern matches a whole value, as bake decides it. Raises ValueError if RE2 refuses the pattern."""
    return is_unicode(value) and compile_linear(pattern).fullmatch(value) is not None


def tables(document: dict[str, object], key: str) -> list[dict[str, object]]:
    """Return the objects in the array ``key``; empty if there is no array."""
    value = document.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def decode_base64(value: object) -> bytes:
    """Return the data of a base64 text; other texts as they are, empty for what is no text."""
    if not isinstance(value, str):
        return b""
    try:
        return base64.b64decode(value)
    except ValueError:
        return value.encode(errors="replace")


def count(number: int, noun: str) -> str:
    """Return ``1 problem`` or ``2 problems``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
