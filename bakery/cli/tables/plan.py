"""A plan, for people and for machines."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from bakery.core.names import SYSTEMS
from bakery.core.target_kinds import Kind
from bakery.core.text import count
from bakery.emit.workflow import fitting_cache, is_tight
from bakery.plan.cells import Cell, selects
from bakery.plan.model import VERSION, Plan
from bakery.plan.shards import CellGroup, job_groups
from bakery.recipe.models import Ci
from bakery.resolve.delivery import workflow_settings
from wheel_audit.tables import plain_table
from wheel_audit.terminal import write

MOST_ROWS = 60
"""Limit of cells in a table. A longer plan is printed as plain lines, because rich is slow for large tables."""

CellTexts = Mapping[str, Mapping[str, str]]
"""Recipe → cell → text about the cell."""

_NONE: CellTexts = MappingProxyType({})


def to_json(
    plans: Sequence[Plan],
    only: tuple[str, ...],
    skipped: CellTexts = _NONE,
    platforms: CellTexts = _NONE,
    *,
    explain: bool = False,
) -> dict[str, object]:
    """Return the plans as JSON; ``skipped`` says why cells are skipped, ``platforms`` how platforms are provided.

    ``explain`` adds every value and where it comes from.
    """
    documents = [_document(plan, only, platforms.get(plan.recipe, {})) for plan in plans]
    if explain:
        documents = [document | {"values": _origins(plan)} for document, plan in zip(documents, plans, strict=True)]
    return {"version": VERSION, "recipes": documents, **({"left_out": skipped} if skipped else {})}


def print_skipped(console: Console, skipped: CellTexts) -> None:
    """Print which cells are skipped and why; cells with the same reason are in one line."""
    for recipe, cells in skipped.items():
        reasons: dict[str, list[str]] = {}
        for cell, reason in cells.items():
            reasons.setdefault(reason, []).append(cell)
        for reason, ids in reasons.items():
            console.print(Text.assemble((f"{recipe}: skipped {', '.join(ids)}", "dim"), f"  {reason}"))


def _document(plan: Plan, only: tuple[str, ...], platforms: Mapping[str, str]) -> dict[str, object]:
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
        "credentials": {name: list(stages) for name, stages in plan.credential_stages().items()},
        "entitlements": list(plan.required_grants),
        "entitlements_beside_credentials": list(plan.foreign),
        "overrides": [str(override) for override in plan.overrides],
        "cells": [
            {
                "id": cell.id,
                "backend": "bake" if id(cell) in baked else "cibuildwheel",
                "axes": dict(cell.axes),
                "platform_by": platforms.get(cell.id, ""),
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
            for cell in selected(plan, only)
        ],
    }


def _origins(plan: Plan) -> dict[str, object]:
    return {name: {"value": value, "from": origin} for name, (value, origin) in plan.origins.items()}


def selected(plan: Plan, only: tuple[str, ...]) -> tuple[Cell, ...]:
    """Return the cells that the globs ``only`` match, with those that build their wheels; all cells without globs."""
    if not only:
        return (*plan.cells, *plan.cibuildwheel_cells)

    def matches(cell: Cell) -> bool:
        return selects(only, (cell.id,))

    others = tuple(filter(matches, plan.cibuildwheel_cells))
    if others and not any(map(matches, plan.cells)):
        return others
    baked = {target.cell.id: target.cell for target in plan.select(tuple(plan.groups), only)}
    return (*baked.values(), *others)


def print_cells(console: Console, plan: Plan, only: tuple[str, ...], platforms: Mapping[str, str]) -> None:
    """Print the cells of a plan, how their ``platforms`` are provided, and what the recipe requests."""
    cells = selected(plan, only)
    console.print(Text.assemble((plan.recipe, "bold"), f"  {plan.description}"))
    console.print(
        Text(f"  {count(len(cells), 'cell')} → {plan.output}/   {plan.bakefile}   {plan.dockerfile}", style="dim")
    )
    for name, stages in plan.credential_stages().items():
        console.print(Text(f"  {name} → {', '.join(stages)}", style="dim"))
    for line in _requests(plan):
        console.print(Text(f"  {line}", style="yellow"))
    if len(cells) > MOST_ROWS:
        # One write: console.print() would take longer than planning ten thousand cells.
        write(console.file, "".join(f"  {cell.id}\n" for cell in cells))
        return
    columns = {"  cell": [f"  {cell.id}" for cell in cells]}
    columns |= {axis: [cell.axes[axis] for cell in cells] for axis in cells[0].axes}
    if any(platforms.get(cell.id, "native") != "native" for cell in cells):
        columns["platform by"] = [platforms.get(cell.id, "") for cell in cells]
    if any(cell.built_by != cell.id for cell in cells):
        columns["wheel of"] = [cell.built_by for cell in cells]
    columns["needs"] = [", ".join(_needs(cell)) for cell in cells]
    table = plain_table(*(Column(name, style="cyan" if name == "  cell" else "") for name in columns))
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    console.print(table)


def _requests(plan: Plan) -> list[str]:
    """Return what a recipe requests beyond the defaults: network, secrets, access to this machine, images and servers."""
    lines = [f"network: {', '.join(plan.network)}"] if plan.network else []
    for secret in plan.secrets:
        target = f"as {secret.variable}" if secret.variable else f"in /run/secrets/{secret.name}"
        lines.append(f"secret {secret.name}: {secret.origin} → {', '.join(secret.phases)}, {target}")
    lines += [f"needs --allow {shlex.quote(grant)}" for grant in plan.required_grants]
    when = "" if plan.secrets else " if the package index or cargo has a password"
    return [*lines, *(f"needs --allow {shlex.quote(grant)}{when}" for grant in plan.foreign)]


def _needs(cell: Cell) -> Iterable[str]:
    images = [image.ref for image in cell.images] or ["cibuildwheel"]
    return dict.fromkeys([*images, *(f"{need.name} {need.version}" for need in cell.needs)])


def origins(plan: Plan) -> Table:
    """Return every value of a plan and where it comes from."""
    named = Column("value of", style="cyan", overflow="fold", max_width=40)
    columns = (named, Column("is", min_width=16), Column("from", style="dim", no_wrap=True))
    table = plain_table(*columns, title=plan.recipe)
    for path, (value, origin) in plan.origins.items():
        table.add_row(path, Text(value), origin)
    for grant in (*plan.required_grants, *plan.foreign):
        table.add_row("entitlement", Text(grant), "--allow")
    return table


def github_matrix(plans: Sequence[Plan], only: tuple[str, ...]) -> str:
    """Return ``{"include": […]}`` on one line, for ``fromJSON``: jobs, with ``cells`` in the form of BAKERY_ONLY."""
    groups = job_groups([part for plan in plans for part in _by_system(plan, only)])
    return json.dumps({"include": [_job(group) for group in groups]})


def _by_system(plan: Plan, only: tuple[str, ...]) -> list[Plan]:
    """Return the plan of each system with selected cells; if there is none, the error is about Linux."""
    parts = [plan.for_system(system) for system in SYSTEMS]
    selected = [part for part in parts if part.cells and part.matches(only)]
    return [part.filter_by_pattern(only) for part in selected or parts[:1]]


def _job(group: CellGroup) -> dict[str, str | bool]:
    ci = group.plan.ci or workflow_settings(Ci())
    return {
        "recipe": group.plan.recipe,
        "job": group.name,
        "runner": ci.runners[group.platform],
        "cells": " ".join(cell.id for cell in group.cells),
        "cache": fitting_cache(group.plan, ci),
        "free-disk": is_tight(ci, [group]),
    }
