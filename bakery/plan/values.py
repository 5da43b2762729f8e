"""Text with references to build arguments, and JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

EXPANSIONS: Mapping[str, Callable[[str], str]] = {
    "": str,
    "%%.*": lambda text: text.partition(".")[0],
    "%.*": lambda text: text.rpartition(".")[0],
    "//./": lambda text: text.replace(".", ""),
}
"""Expansion of a build argument → what BuildKit does."""

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Ref:
    """A build argument in a value: ``${NAME}`` in generated files.

    The name may end in one of BuildKit's expansions (`EXPANSIONS`), such as ``CUDA_VERSION%%.*``.
    """

    name: str

    @property
    def variable(self) -> str:
        """The name without an expansion."""
        return re.split(r"%|//", self.name, maxsplit=1)[0]

    def expand(self, values: Mapping[str, str]) -> str:
        """Return what BuildKit replaces it with; empty for an argument without a value."""
        text = values.get(self.variable, "")
        return EXPANSIONS[self.name.removeprefix(self.variable)](text)


Value: TypeAlias = tuple[str | Ref, ...]
"""Text with references, in order; the parts are joined."""


def literal(text: str) -> Value:
    """Return ``text`` as a value without references."""
    return (text,)


def names_in(values: Iterable[Value]) -> tuple[str, ...]:
    """Return the names that values refer to, with their expansions, once each and in order."""
    return tuple(dict.fromkeys(part.name for value in values for part in value if isinstance(part, Ref)))


def expand(value: Value, values: Mapping[str, str]) -> str:
    """Return ``value`` with every reference expanded; a reference without a value becomes empty."""
    return "".join(part if isinstance(part, str) else part.expand(values) for part in value)


def substitute(value: Value, values: Mapping[str, str]) -> str:
    """Return ``value`` with every reference replaced by its value in ``values``."""
    return "".join(part if isinstance(part, str) else values[part.name] for part in value)
