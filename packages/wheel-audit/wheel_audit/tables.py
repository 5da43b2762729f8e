"""Tables and text for people, rendered with rich. Text that comes from a wheel is shown as it is, never as markup."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Column, Table
from rich.text import Text


def plain_table(*columns: Column | str, title: str = "", header: bool = True) -> Table:
    """Return a table without lines; two spaces separate its columns."""
    return Table(
        *columns,
        title=title or None,
        title_justify="left",
        title_style="bold",
        show_header=header,
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )


def key_values(rows: Iterable[tuple[str, Text]]) -> Table:
    """Return an indented table of names and values; long values are folded."""
    table = Table.grid(Column(style="dim", no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for name, value in rows:
        table.add_row(f"  {name}", value)
    return table
