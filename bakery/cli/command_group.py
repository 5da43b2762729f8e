"""The top-level command: it imports a subcommand when that is called, and prints plain help, grouped by task.

Importing all subcommands, or rich's panels, would take longer than everything else that ``--help`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from bakery.core.errors import EXIT_CODES

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter
    from typer._click.shell_completion import CompletionItem

WIDTH = 100
"""Columns of the help, in a terminal that has them."""

PROGRAM = "wheel-bakery"
COMPLETE = "_WHEEL_BAKERY_COMPLETE"
"""The variable by which a shell asks for completions; typer makes it of the program's name."""

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDTH}


@dataclass(frozen=True, slots=True)
class Entry:
    """A subcommand."""

    summary: str
    where: str
    """``MODULE:NAME`` in `bakery.cli`: a function, a `typer.Typer`, or a mapping that has the function by its name."""


class PlainGroup(TyperGroup):
    """A command with subcommands, each shown with the first sentence of its help."""

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the subcommands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(self.commands[name].help)) for name in self.list_commands(ctx)])


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split()).partition(". ")[0].rstrip(".") + "."


class _Commands(MutableMapping[str, Any]):
    """The subcommands by name. Each is imported when it is asked for."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self._entries, self._loaded = entries, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, self._entries[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _load(name: str, entry: Entry) -> Any:
    module, _, attribute = entry.where.partition(":")
    found = getattr(import_module(f"bakery.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        return get_command(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name)(found[name] if isinstance(found, dict) else found)
    return get_command(alone)


def group_of(tasks: dict[str, dict[str, Entry]]) -> type[TyperGroup]:
    """Return the class of a top-level command with the subcommands of ``tasks``: task → name → entry."""

    class CommandGroup(TyperGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            entries = {name: entry for commands in tasks.values() for name, entry in commands.items()}
            self.commands = cast("MutableMapping[str, Command]", _Commands(entries))

        def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
            for task, commands in tasks.items():
                with formatter.section(task):
                    formatter.write_dl([(name, entry.summary) for name, entry in commands.items()])

        def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
            # The inherited function imports all subcommands.
            from typer._click.shell_completion import CompletionItem

            if incomplete.startswith("-"):
                return super().shell_complete(ctx, incomplete)
            all_ = {name: entry.summary for commands in tasks.values() for name, entry in commands.items()}
            return [CompletionItem(name, help=text) for name, text in all_.items() if name.startswith(incomplete)]

        def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
            codes = [("0", "Success."), *((str(code), text) for code, text in sorted(EXIT_CODES.items()))]
            with formatter.section("Exit codes"):
                formatter.write_dl(codes)

    return CommandGroup
