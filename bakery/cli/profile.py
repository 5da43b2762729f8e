"""``wheel-bakery profile``: where the time of a cell went, from the runs that are kept, without an engine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import echo_json, out, say
from bakery.core.errors import OutputError

if TYPE_CHECKING:
    from bakery.plan.model import Plan
    from bakery.runs.cell_profile import CellProfile


def profile(
    cell: Annotated[str, typer.Argument(help="A cell's id, as `wheel-bakery plan` shows it.", metavar="CELL")],
    recipe: parameters.Recipes = None,
    json: parameters.AsJson = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            help="Write a Chrome trace, for Perfetto or chrome://tracing.",
            metavar="FILE",
            callback=parameters.written,
        ),
    ] = None,
    most: Annotated[int, typer.Option("--most", help="Rows of each table.", min=1, metavar="N")] = 15,
) -> None:
    """Show where the time of a cell went: slowest steps and files, idle cores, and what would help.

    Example: wheel-bakery profile cp312 --trace trace.json
    """
    from bakery.cli.tables.profile import document, render
    from bakery.runs.cell_profile import advice, beside, summary
    from bakery.runs.cell_profile import trace as chrome_trace

    root, plan, builder = builder_of(cell, recipe)
    times, run, older = times_of(root, plan, builder)
    if older or not times.commands:
        say(f"the compile steps were cached; times are those of {run.name}" if older else "the run compiled nothing")
    used = summary(times)
    (own,) = plan.filter_by_id([builder]).cells
    helps = advice(times, used, beside(run, times), plan.of(own).facts.limits)
    if trace is not None:
        from json import dumps

        try:
            trace.write_text(dumps(chrome_trace(times)) + "\n", encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {trace}: {error.strerror}", hint="choose another file") from error
        say(f"wrote {trace}")
    if json:
        echo_json(document(times, used, helps, run.name, cached_since=older))
    else:
        out.print(render(times, used, helps, most))


def builder_of(cell: str, recipe: list[str] | None, sets: list[str] | None = None) -> tuple[Path, Plan, str]:
    """Return the project and the plan that have a cell, and the cell that builds its wheel. Raises UsageError if none has."""
    from bakery.cli.recipes import cell_named, resolved

    # With the commit's time, as a bake has it: `why` compares the two.
    root, plan, _ = cell_named(cell, resolved(recipe, sets, Path.cwd(), dated=True))
    builder = next(name for name, cells in plan.cells_by_builder().items() if cell in [item.id for item in cells])
    if builder != cell:
        say(f"{cell} has the wheel of {builder}")
    return root, plan, builder


def times_of(root: Path, plan: Plan, cell: str) -> tuple[CellProfile, Path, bool]:
    """Return what `cell_profile.find` returns. Raises UsageError if no kept run has times of the cell."""
    from bakery.runs.cell_profile import find
    from bakery.runs.run_folders import state_folder

    return find(state_folder(root, os.environ), plan.recipe, cell, plan.reference)
