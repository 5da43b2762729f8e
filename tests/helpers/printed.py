"""What may be printed."""

from __future__ import annotations


def is_text(said: str) -> bool:
    """Say whether a text has no character that a terminal obeys, apart from line ends and tabs."""
    return all(char.isprintable() or char in "\n\t" for char in said)
