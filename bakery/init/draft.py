"""A recipe that is not written yet: values by key, each with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bakery.init.findings import Rest

Value = str | bool | list[str] | dict[str, str] | Mapping[str, object]

TABLES = ("", "variables", "matrix", "builder", "wheel", "test")
"""The tables of a first recipe, in the order of the file; the first holds the keys at the top."""

KEYS = (
    *("name", "source", "platforms", "python", "torch", "jax", "cuda"),
    *("base", "toolkit", "components", "framework", "requirements", "system-packages"),
    *("rust", "before-build", "network", "environment"),
    *("frontend", "config-settings", "abi3", "repair", "imports", "files", "command"),
)
"""The keys in the order of the file."""


@dataclass
class Entry:
    """One key.

    Attributes:
        reason: the comment beside it: where the value is from, or ``guess: …``.
        is_optional: the wheel is also built without it, so it goes first if the recipe gets too long.
    """

    table: str
    key: str
    value: object
    reason: str = ""
    is_optional: bool = False


@dataclass
class Draft:
    """The keys of a recipe, what is not carried over, and what the user should know."""

    title: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    rest: list[Rest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def set(self, path: str, value: object, reason: str = "", *, optional: bool = False) -> None:
        """Set a key such as ``builder.toolkit``."""
        table, _, key = path.rpartition(".") if path.partition(".")[0] in TABLES else ("", "", path)
        self.entries[path] = Entry(table, key, value, reason, optional)

    def extend(
        self, path: str, items: Sequence[str] | Mapping[str, str], reason: str, *, optional: bool = False
    ) -> None:
        """Add items to a list or a table, and the reason to its comment."""
        if not items:
            return
        entry = self.entries.get(path)
        if entry is None:
            self.set(
                path,
                dict(items) if isinstance(items, Mapping) else list(dict.fromkeys(items)),
                reason,
                optional=optional,
            )
            return
        if isinstance(items, Mapping):
            assert isinstance(entry.value, dict)
            entry.value |= {key: value for key, value in items.items() if key not in entry.value}
        else:
            assert isinstance(entry.value, list)
            entry.value += [item for item in items if item not in entry.value]
        if reason not in entry.reason:
            entry.reason = "; ".join(filter(None, (entry.reason, reason)))
        entry.is_optional = entry.is_optional and optional

    def texts(self, path: str) -> list[str]:
        """Return the list at a key; empty if it is not set."""
        entry = self.entries.get(path)
        return list(entry.value) if entry and isinstance(entry.value, list) else []
