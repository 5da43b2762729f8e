"""What a package index has of a plan, for people."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from bakery.release.coverage import Coverage
from wheel_audit.tables import plain_table
from wheel_audit.text import printable


def render(item: Coverage) -> RenderableType:
    """Return a table of what is missing and new."""
    release = f"{item.project} {item.version}" if item.version else f"{item.project}, which the index does not have"
    title = Text(
        printable(f"{item.recipe}: {item.cells - len(item.missing)} of {item.cells} cells have a wheel of {release}")
    )
    table = plain_table(Column(), Column(overflow="fold"))
    for cell in item.missing:
        table.add_row("  missing", cell)
    for axis, values in item.newer.items():
        table.add_row(f"  new {axis}", ", ".join(values))
    return Group(title, table) if table.row_count else title
