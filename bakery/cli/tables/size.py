"""The space that a release takes, for people and for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bakery.core.text import size_text
from bakery.release.size import CellSize, ProjectSize, Source
from wheel_audit.text import listed, printable

VERSION = 1
"""Version of the JSON; raised when a reader would have to change."""

_MOST_CELLS = 3
"""Limit of cells in the text about an estimate."""


def lines(recipe: str, cells: Sequence[CellSize]) -> str:
    """Return a line for each cell of a recipe: its size, and where that is from."""
    sizes = ["–" if cell.size is None or cell.source is Source.SHARED else size_text(cell.size) for cell in cells]
    widths = max((len(cell.cell) for cell in cells), default=0), max(map(len, sizes), default=0)
    rows = (
        f"  {cell.cell:<{widths[0]}}  {size:>{widths[1]}}  {_source(cell)}"
        for cell, size in zip(cells, sizes, strict=True)
    )
    return printable("\n".join((recipe, *rows)), keep="\n")


def _source(cell: CellSize) -> str:
    names = ", ".join(cell.cells[:_MOST_CELLS])
    return {
        Source.BUILT: "built",
        Source.SHARED: f"wheel of {names}",
        Source.ESTIMATE: f"estimate from {listed(cell.cells, _MOST_CELLS)}",
        Source.UNKNOWN: "unknown",
    }[cell.source]


def total(item: ProjectSize) -> str:
    """Return one line: the size of a project's release, and its share of the project's limit."""
    text = f"{item.project}: {size_text(item.size)}" if item.size else f"{item.project}: size unknown"
    text += f", {size_text(item.estimated)} of it estimated" if item.estimated else ""
    text += f", {item.unknown} cells without an estimate" if item.unknown else ""
    if item.limit and item.size:
        part = f"{size_text(item.uploaded)} of it for the index, " if item.uploaded != item.size else ""
        text += f"; {part}{_share(item.uploaded / item.limit.size)} of the {item.limit}"
    return printable(text)


def _share(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "under 0.1%"


def to_json(recipes: Mapping[str, Sequence[CellSize]], projects: Sequence[ProjectSize]) -> dict[str, object]:
    """Return the sizes in bytes; null for a size that is not known, and for no limit."""
    return {
        "version": VERSION,
        "recipes": [
            {
                "recipe": recipe,
                "cells": [
                    {"id": cell.cell, "size": cell.size, "source": cell.source, "cells": list(cell.cells)}
                    for cell in cells
                ],
            }
            for recipe, cells in recipes.items()
        ],
        "projects": [
            {
                "project": item.project,
                "size": item.size,
                "estimated": item.estimated,
                "unknown": item.unknown,
                "uploaded": item.uploaded,
                "limit": item.limit.size if item.limit else None,
                "fits": not item.fault,
            }
            for item in projects
        ],
    }
