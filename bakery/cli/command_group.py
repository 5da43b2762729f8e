"""The top-level command: it imports a subcommand when that is called, and prints plain help, grouped by task.

Importing all subcommands, or rich's panels, would take longer than everything else that ``--help`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from bakery.cli.plugins import Entry, exit_codes, missing, plugins
from wheel_audit.text import printable

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter
    from typer._click.shell_completion import CompletionItem

WIDTH = 100
"""Columns of the help, in a terminal that has them."""

PROGRAM = "wheel-bakery"
COMPLETE = "_WHEEL_BAKERY_COMPLETE"
"""The variable by which a shell asks for completions; typer makes it of the program's name."""

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDTH}


class PlainGroup(TyperGroup):
    """A command with subcommands, each shown with the first sentence of its help."""

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the subcommands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(self.commands[name].help)) for name in self.list_commands(ctx)])


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split()).partition(". ")[0].rstrip(".") + "."


class _Commands(Mapping[str, Any]):
    """The subcommands by name, with those of plugins. Each is imported when it is asked for."""

    def __init__(self, own: dict[str, Entry]) -> None:
        self._own = own

    def __getitem__(self, name: str) -> Any:
        # Plugins are slow to find, and most commands are no plugin's.
        if entry := self._own.get(name) or self._all().get(name):
            return _load(name, entry)
        raise missing(name) or KeyError(name)

    def _all(self) -> dict[str, Entry]:
        added = {name: entry for plugin in plugins() for name, entry in plugin.commands.items()}
        return added | self._own

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def _load(name: str, entry: Entry) -> Any:
    module, _, attribute = entry.where.partition(":")
    found = getattr(import_module(module if "." in module else f"bakery.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        return get_command(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name)(found[name] if isinstance(found, dict) else found)
    return get_command(alone)


_INSTEAD = {
    "--python": "cells are selected by their names: --only 'cp311*'",
    "--build": "cells are selected by their names: --only 'cp311*'",
    "--platform": "one platform of the recipe: --set '*.platform=linux/arm64'; or select cells: --only '*aarch64'",
    "--archs": "cells are selected by their names: --only '*aarch64'",
    "--output-dir": "the output folder is --output",
    "-C": "it stands before the command: wheel-bakery -C DIR wheel",
}
"""Options of other tools, and in the wrong place → what to write."""


@contextmanager
def _clean_errors() -> Iterator[None]:
    """Escape what typer prints of a wrong command line: names of files come from globs."""
    from typer._click.exceptions import ClickException, NoSuchOption

    try:
        yield
    except ClickException as error:
        error.message = printable(error.message)
        if isinstance(error, NoSuchOption) and (instead := _INSTEAD.get(error.option_name)):
            error.message, error.possibilities = f"{error.message}; {instead}", None
        raise


def group_of(tasks: dict[str, dict[str, Entry]]) -> type[TyperGroup]:
    """Return the class of a top-level command with the subcommands of ``tasks``: task → name → entry."""

    def _by_task() -> Iterator[tuple[str, Mapping[str, Entry]]]:
        yield from tasks.items()
        yield from ((plugin.title, plugin.commands) for plugin in plugins())

    class CommandGroup(TyperGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            own = {name: entry for commands in tasks.values() for name, entry in commands.items()}
            self.commands = cast("dict[str, Command]", _Commands(own))

        def make_context(self, *args: Any, **options: Any) -> Context:
            with _clean_errors():
                return super().make_context(*args, **options)

        def invoke(self, ctx: Context) -> Any:
            with _clean_errors():
                return super().invoke(ctx)

        def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
            for task, commands in _by_task():
                with formatter.section(task):
                    formatter.write_dl([(name, entry.summary) for name, entry in commands.items()])

        def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
            # The inherited function imports all subcommands.
            from typer._click.shell_completion import CompletionItem

            if incomplete.startswith("-"):
                return super().shell_complete(ctx, incomplete)
            all_ = {name: entry.summary for _, commands in _by_task() for name, entry in commands.items()}
            return [CompletionItem(name, help=text) for name, text in all_.items() if name.startswith(incomplete)]

        def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
            codes = [("0", "Success."), *((str(code), text) for code, text in sorted(exit_codes().items()))]
            with formatter.section("Exit codes"):
                formatter.write_dl(codes)

    return CommandGroup
