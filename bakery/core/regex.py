"""Regular expressions that others wrote, matched by RE2 in time proportional to the text (docs/decisions/0012-re2.md)."""

from __future__ import annotations

from typing import Protocol

from bakery.core.text import is_unicode


class LinearPattern(Protocol):
    """A compiled expression of RE2."""

    def fullmatch(self, text: str) -> object | None:
        """Return a match of the whole text, or None."""


def compile_linear(text: str) -> LinearPattern:
    """Compile an expression that may be anybody's. Raises ValueError if RE2 refuses it."""
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
