"""A plan, for people and for machines."""

from __future__ import annotations

import fnmatch
import json
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bakery.core.names import Kind
from bakery.plan.cells import Cell
from bakery.plan.model import VERSION, Plan

ROWS = 60
"""Cells that a table shows; a longer plan is told as lines, which cost nothing to lay out."""


Told = Mapping[str, Mapping[str, str]]
"""Recipe → cell → what is told of it."""

_NOTHING: Told = MappingProxyType({})


def to_json(plans: Sequence[Plan], only: tuple[str, ...], left: Told = _NOTHING, ways: Told = _NOTHING) -> str:
    """Return the plans as JSON: cells with their axes and arguments, variables, targets by group.

    Args:
        left: why a cell is left out.
        ways: how its platform is had.
    """
    documents = [_document(plan, only, ways.get(plan.recipe, {})) for plan in plans]
    document: dict[str, object] = {"version": VERSION, "recipes": documents}
    if left:
        document["left_out"] = left
    return json.dumps(document, indent=1)


def print_left(console: Console, left: Told) -> None:
    """Print what is left out and why: cells with the same reason in one line."""
    for recipe, cells in left.items():
        reasons: dict[str, list[str]] = {}
        for cell, reason in cells.items():
            reasons.setdefault(reason, []).append(cell)
        for reason, ids in reasons.items():
            console.print(Text.assemble((f"{recipe}: left out {', '.join(ids)}", "dim"), f"  {reason}"))


def _document(plan: Plan, only: tuple[str, ...], ways: Mapping[str, str]) -> dict[str, object]:
    baked = set(map(id, plan.cells))
    return {
        "recipe": plan.recipe,
        "description": plan.description,
        "bakefile": plan.bakefile,
        "dockerfile": plan.dockerfile,
        "output": plan.output,
        "variables": plan.values(),
        "groups": {name: [kind.value for kind in kinds] for name, kinds in plan.groups.items()},
        "network": list(plan.network),
        "secrets": [
            {"name": item.name, "from": item.origin, "steps": list(item.phases), "variable": item.variable}
            for item in plan.secrets
        ],
        "entitlements": list(plan.required_grants),
        "overrides": [str(override) for override in plan.overrides],
        "cells": [
            {
                "id": cell.id,
                "backend": "bake" if id(cell) in baked else "cibuildwheel",
                "axes": dict(cell.axes),
                "platform_by": ways.get(cell.id, ""),
                "args": dict(cell.args),
                "targets": [
                    f"{kind}-{cell.id}"
                    for kind in plan.kinds
                    if cell.has(kind) and (id(cell) in baked or kind is not Kind.DEV)
                ],
                "built_by": cell.built_by,
                "images": sorted({image.ref for image in cell.images}),
                "needs": [f"{need.name}=={need.version}" for need in cell.needs],
            }
            for cell in _chosen(plan, only)
        ],
    }


def _chosen(plan: Plan, only: tuple[str, ...]) -> tuple[Cell, ...]:
    if not only:
        return (*plan.cells, *plan.cibuildwheel_cells)
    elsewhere = tuple(
        cell for cell in plan.cibuildwheel_cells if any(fnmatch.fnmatchcase(cell.id, glob) for glob in only)
    )
    if elsewhere and not any(fnmatch.fnmatchcase(cell.id, glob) for cell in plan.cells for glob in only):
        return elsewhere
    baked = {target.cell.id: target.cell for target in plan.select(tuple(plan.groups), only)}
    return (*baked.values(), *elsewhere)


def print_cells(console: Console, plan: Plan, only: tuple[str, ...], ways: Mapping[str, str]) -> None:
    """Print what a plan would bake.

    Args:
        ways: cell → how its platform is had.
    """
    cells = _chosen(plan, only)
    heading = Text.assemble((plan.recipe, "bold"), f"  {plan.description}")
    console.print(heading)
    console.print(Text(f"  {len(cells)} cells → {plan.output}/   {plan.bakefile}   {plan.dockerfile}", style="dim"))
    for line in _asked(plan):
        console.print(Text(f"  {line}", style="yellow"))
    if len(cells) > ROWS:
        # print() of one string: laying out ten thousand rows would take longer than planning them.
        console.file.write("".join(f"  {cell.id}\n" for cell in cells))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    columns = list(cells[0].axes)
    # Whose wheel a cell takes says something only where it is not its own.
    shared = ["wheel of"] if any(cell.built_by != cell.id for cell in cells) else []
    # All native cells need no word.
    placed = ["platform by"] if any(ways.get(cell.id, "native") != "native" for cell in cells) else []
    for column in ("  cell", *columns, *placed, *shared, "needs"):
        table.add_column(column, style="cyan" if column == "  cell" else "")
    for cell in cells:
        own = [] if cell.images else ["cibuildwheel"]
        needs = ", ".join(dict.fromkeys([*own, *(image.ref for image in cell.images), *_needs(cell)]))
        wheel = [cell.built_by] if shared else []
        way = [ways.get(cell.id, "")] if placed else []
        table.add_row("  " + cell.id, *(cell.axes[column] for column in columns), *way, *wheel, needs)
    console.print(table)


def _asked(plan: Plan) -> list[str]:
    """Return what a recipe asks for beyond what every recipe has: network, secrets, files of this machine."""
    lines = [f"network: {', '.join(plan.network)}"] if plan.network else []
    for item in plan.secrets:
        place = f"as {item.variable}" if item.variable else f"in /run/secrets/{item.name}"
        lines.append(f"secret {item.name}: {item.origin} → {', '.join(item.phases)}, {place}")
    return [*lines, *(f"needs --allow {shlex.quote(want)}" for want in plan.required_grants)]


def _needs(cell: Cell) -> list[str]:
    return [f"{need.name} {need.version}" for need in cell.needs]


def origins(plan: Plan) -> Table:
    """Return every value of a plan and where it came from."""
    table = Table(
        title=plan.recipe, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    table.add_column("value of", style="cyan", no_wrap=True)
    table.add_column("is")
    table.add_column("from", style="dim", no_wrap=True)
    for path, (value, origin) in plan.origins.items():
        table.add_row(path, Text(value), origin)
    for want in plan.required_grants:
        table.add_row("entitlement", Text(want), "--allow")
    return table
