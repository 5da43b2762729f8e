"""Text with references to build arguments, and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Ref:
    """A build argument inside a value: written ``${NAME}`` in files, replaced when they are built."""

    name: str


Value: TypeAlias = tuple[str | Ref, ...]
"""Text with references, in order; the parts are joined."""


def literal(text: str) -> Value:
    """Return ``text`` as a value without references."""
    return (text,)


def substitute(value: Value, values: Mapping[str, str]) -> str:
    """Return ``value`` with every reference replaced by its value in ``values``."""
    return "".join(part if isinstance(part, str) else values[part.name] for part in value)
