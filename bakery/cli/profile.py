"""``wheel-bakery profile``: where the time of a cell went, from the runs that are kept, without an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import options
from bakery.cli.console import echo_json, out, say
from bakery.core.errors import OutputError, UsageError

if TYPE_CHECKING:
    from bakery.build.cell_profile import CellProfile
    from bakery.plan.model import Plan


def profile(
    cell: Annotated[str, typer.Argument(help="A cell's id, as `wheel-bakery plan` shows it.", metavar="CELL")],
    recipe: options.Recipes = None,
    json: options.AsJson = False,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", help="Write a Chrome trace, for Perfetto or chrome://tracing.", metavar="FILE"),
    ] = None,
    most: Annotated[int, typer.Option("--most", help="Rows of each table.", min=1, metavar="N")] = 15,
) -> None:
    """Show where the time of a cell went: slowest steps and files, idle cores, and what would help.

    Example: wheel-bakery profile cp312 --trace trace.json
    """
    from bakery.build.cell_profile import beside
    from bakery.build.profile_summary import advice, summary
    from bakery.build.profile_summary import trace as chrome_trace
    from bakery.cli.tables.profile import document, render

    times, run, older = times_of(*builder_of(cell, recipe))
    if older or not times.commands:
        say(f"the compile steps were cached; times are those of {run.name}" if older else "the run compiled nothing")
    used = summary(times)
    helps = advice(times, used, beside(run, times))
    if trace is not None:
        import json as text

        try:
            trace.write_text(text.dumps(chrome_trace(times)) + "\n", encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {trace}: {error.strerror}", hint="choose another file") from error
        say(f"wrote {trace}")
    if json:
        echo_json(document(times, used, helps, run.name, cached_since=older))
    else:
        out.print(render(times, used, helps, most))


def builder_of(cell: str, recipe: list[str] | None, sets: list[str] | None = None) -> tuple[Path, Plan, str]:
    """Return the project and the plan that have a cell, and the cell that builds its wheel. Raises UsageError if none has."""
    from bakery.cli.recipes import resolved

    plans = [(root, plan) for root, plan in resolved(recipe, sets, Path.cwd(), dated=False)]
    chosen = [(root, plan, item) for root, plan in plans for item in plan.cells if item.id == cell]
    if not chosen:
        known = dict.fromkeys(item.id for _, plan in plans for item in plan.cells)
        raise UsageError(f"no recipe has a cell {cell}", hint=f"cells are {', '.join(known)}")
    if len(chosen) > 1:
        names = ", ".join(plan.recipe for _, plan, _ in chosen)
        raise UsageError(f"several recipes have a cell {cell}: {names}", hint="choose one with --recipe")
    root, plan, _ = chosen[0]
    builder = next(name for name, cells in plan.cells_by_builder().items() if cell in [item.id for item in cells])
    if builder != cell:
        say(f"{cell} has the wheel of {builder}")
    return root, plan, builder


def times_of(root: Path, plan: Plan, cell: str) -> tuple[CellProfile, Path, bool]:
    """Return what `cell_profile.find` returns. Raises UsageError if no kept run has times of the cell."""
    from bakery.build.cell_profile import find

    return find(root, plan.recipe, cell)
