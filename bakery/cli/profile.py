"""``wheel-bakery profile`` and ``why``: where the time of a cell went, from the runs that are kept, without an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import options
from bakery.cli.console import echo_json, out, say
from bakery.core.errors import OutputError, UsageError

if TYPE_CHECKING:
    from bakery.build.cell_profile import CellProfile


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

    times, run, older = _chosen(cell, recipe)
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


def why(
    cell: Annotated[str, typer.Argument(help="A cell's id, as `wheel-bakery plan` shows it.", metavar="CELL")],
    recipe: options.Recipes = None,
    compiler_cache: Annotated[
        bool, typer.Option("--compiler-cache", help="Explain what the compiler cache did not have in the last run.")
    ] = False,
    json: options.AsJson = False,
) -> None:
    """Explain what was compiled again: which file or argument differed from the last time.

    Example: wheel-bakery why cp312 --compiler-cache
    """
    if not compiler_cache:
        raise UsageError("say what to explain", hint=f"wheel-bakery why {cell} --compiler-cache")
    times, run, older = _chosen(cell, recipe)
    if older:
        say(f"the newest run compiled nothing; these are the misses of {run.name}")
    misses = [dict(zip(("object", "reason"), text.split(": ", 1), strict=False)) for text in times.misses]
    if json:
        echo_json({"cell": times.cell, "run": run.name, "misses": misses})
        return
    for miss in misses:
        out.print(f"{miss['object']}\n  {miss.get('reason', '')}", markup=False, highlight=False)
    say(f"{len(misses)} files were compiled because the compiler cache did not have them")


def _chosen(cell: str, recipe: list[str] | None) -> tuple[CellProfile, Path, bool]:
    """Return what `find` returns for the cell that builds a cell's wheel. Raises UsageError if there is none."""
    from bakery.build.cell_profile import find
    from bakery.cli.recipes import resolved

    plans = [(root, plan) for root, plan in resolved(recipe, None, Path.cwd(), dated=False)]
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
    return find(root, plan.recipe, builder)
