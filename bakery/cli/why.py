"""``wheel-bakery why``: which stages of a cell are built again, and because of what; without an engine."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import options
from bakery.cli.console import echo, echo_json, say
from bakery.cli.profile import builder_of, times_of
from bakery.core.errors import UsageError

if TYPE_CHECKING:
    from bakery.plan.model import Plan
    from bakery.runs.rebuild_reasons import Reason


def why(
    cell: Annotated[str, typer.Argument(help="A cell's id, as `wheel-bakery plan` shows it.", metavar="CELL")],
    recipe: options.Recipes = None,
    set_: options.Sets = None,
    compiler_cache: Annotated[
        bool, typer.Option("--compiler-cache", help="Explain what the compiler cache did not have in the last run.")
    ] = False,
    json: options.AsJson = False,
) -> None:
    """Explain which stages of a cell the next run builds again, and why; if nothing changed, what the last run built again.

    Example: wheel-bakery why cp312
    """
    root, plan, builder = builder_of(cell, recipe, set_)
    if compiler_cache:
        _print_misses(root, plan, builder, json)
        return
    bake, run, reasons = _explained(root, plan, builder)
    if json:
        stages = [{"stage": item.stage, "state": item.state, "because": list(item.because)} for item in reasons]
        echo_json({"cell": builder, "bake": bake, "run": run, "stages": stages})
        return
    say(f"the next run, after {run}:" if bake == "next" else f"nothing changed since the last run; in {run}:")
    for item in reasons:
        if item.state != "cached":
            echo(str(item))
    if cached := [item.stage for item in reasons if item.state == "cached"]:
        echo(f"cached: {', '.join(cached)}")


def _explained(root: Path, plan: Plan, cell: str) -> tuple[str, str, tuple[Reason, ...]]:
    """Return ``next`` or ``last``, the name of the last run, and what happens to each stage. Raises UsageError."""
    from bakery.runs.cell_inputs import CellInputs, bakes_of, current
    from bakery.runs.journal import UNKNOWN, newest_records
    from bakery.runs.rebuild_reasons import all_changes, names_packages, ran_stages, reasons
    from bakery.runs.repository import repository_digest
    from bakery.runs.run_folders import state_folder

    state = state_folder(root, os.environ)
    bakes = [inputs for _, inputs in bakes_of(state, plan.recipe, cell)]
    if not bakes:
        raise UsageError(f"no kept run baked {cell}", hint=f"bake it: wheel-bakery wheel --only {shlex.quote(cell)}")
    now = current(root, plan, cell, bakes[0], state, os.environ)
    record = newest_records(state, plan.recipe).get(cell)
    if record and record.repository not in ("", UNKNOWN):
        bakes[0] = bakes[0].with_repository(record.repository)
        now = now.with_repository(repository_digest(root, plan, os.environ))
    if all_changes(bakes[0], now):
        if not names_packages(now):
            say("without a lock, new releases of packages and new base images of a tag are known after the bake")
        return "next", bakes[0].run, reasons(bakes[0], now)
    before = bakes[1] if bakes[1:] else CellInputs(stages={}, files={})
    return "last", bakes[0].run, reasons(before, bakes[0], ran_stages(state, plan.recipe, cell, bakes[0].run))


def _print_misses(root: Path, plan: Plan, cell: str, json: bool) -> None:
    times, run, older = times_of(root, plan, cell)
    if older:
        say(f"the newest run compiled nothing; these are the misses of {run.name}")
    misses = [dict(zip(("object", "reason"), text.split(": ", 1), strict=False)) for text in times.misses]
    if json:
        echo_json({"cell": times.cell, "run": run.name, "misses": misses})
        return
    for miss in misses:
        echo(str(miss["object"]))
        echo(f"  {miss.get('reason', '')}")
    say(f"{len(misses)} files were compiled because the compiler cache did not have them")
