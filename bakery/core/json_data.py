"""Reads JSON that another program wrote, and that may have any form."""

from __future__ import annotations

import base64


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
