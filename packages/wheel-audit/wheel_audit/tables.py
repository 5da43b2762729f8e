"""Tables and text for people, rendered with rich. Text that comes from a wheel is shown as it is, never as markup."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Column, Table
from rich.text import Text

from wheel_audit.text import printable


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


def listed(texts: Iterable[str], most: int = 100) -> str:
    """Return texts in one line, with the number of those beyond the first ``most``."""
    items = [printable(text) for text in texts]
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more
