"""Commands from other distributions: docs/plugins.md describes the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bakery.core.errors import EXIT_CODES, UsageError

if TYPE_CHECKING:
    from bakery.plan.delivery import Repository

GROUP = "bakery.commands"
"""The group of entry points. Each is an object with the attributes of `Plugin`."""

KNOWN = dict.fromkeys(("compile", "validate", "benchmark"), "bakery-iree")
"""Commands of companions → the distribution that has them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A subcommand.

    Attributes:
        summary: one sentence for the list of commands.
        where: ``MODULE:NAME``, a function, a `typer.Typer`, or a mapping that has the function by the command's name. A
            module without dots is one of `bakery.cli`.
    """

    summary: str
    where: str


class Plugin(Protocol):
    """What a distribution adds to the command. Nothing is imported before it is needed."""

    title: str
    """The heading of its commands in ``wheel-bakery --help``."""

    commands: Mapping[str, Entry]
    """The subcommands by name."""

    exit_codes: Mapping[int, str]
    """The exit codes of its own errors, which are subclasses of `bakery.core.errors.BakeryError`, and their meanings."""

    def schemas(self) -> Mapping[str, Mapping[str, object]]:
        """Return the JSON schemas of its files by the name that ``wheel-bakery schema NAME`` takes."""

    def files(self, folder: Path, repository: Repository) -> Mapping[str, str]:
        """Return path from the top of the repository → text of the files that ``wheel-bakery generate`` writes.

        Empty if ``folder`` asks for none. Raises BakeryError.
        """


@cache
def plugins() -> tuple[Plugin, ...]:
    """Return what is installed, in the order of the names of the entry points.

    Raises UsageError if one cannot be imported.
    """
    # Slow to import and to search, and most commands need no plugin.
    from importlib.metadata import entry_points

    return tuple(_loaded(item.name, item) for item in sorted(entry_points(group=GROUP), key=lambda item: item.name))


def _loaded(name: str, entry_point: object) -> Plugin:
    try:
        plugin: Plugin = entry_point.load()  # type: ignore[attr-defined]
    except Exception as error:
        raise UsageError(
            f"the plugin {name} cannot be imported: {type(error).__name__}: {error}",
            hint="install it again, in the version of wheel-bakery",
        ) from error
    return plugin


def missing(name: str) -> UsageError | None:
    """Return the error for a command of a companion that is not installed; None for any other name."""
    if name not in KNOWN:
        return None
    return UsageError(f"{name} is a command of {KNOWN[name]}", hint=f"python -m pip install {KNOWN[name]}")


def exit_codes() -> dict[int, str]:
    """Return exit code → meaning, those of the plugins too."""
    return EXIT_CODES | {code: text for plugin in plugins() for code, text in plugin.exit_codes.items()}
