"""``wheel-bakery logs``: what the steps of the last run printed, without an engine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import echo_text, say
from bakery.core.errors import UsageError


def logs(
    cell: Annotated[
        str,
        typer.Argument(
            help="A cell's id, as `wheel-bakery plan` shows it. Default: the cells that failed in the last run; all, "
            "if none failed.",
            metavar="CELL",
            show_default=False,
        ),
    ] = "",
    step: Annotated[
        str, typer.Option("--step", help="Print the steps of this stage only: compile, repair, test.", metavar="STAGE")
    ] = "",
    recipe: parameters.Recipes = None,
) -> None:
    """Print the log of the last run, or of one of its steps.

    Example: wheel-bakery logs cp312 --step compile
    """
    from bakery.cli.recipes import resolved
    from bakery.runs import kept_logs
    from bakery.runs.run_folders import state_folder

    plans = resolved(recipe, None, Path.cwd(), dated=False)
    names = [plan.recipe for _, plan in plans]
    logs = kept_logs.newest(state_folder(plans[0][0], os.environ), names, cell)
    shown = 0
    for log in logs:
        text = kept_logs.lines(log)
        say(f"{log.stem}: {log}")
        for line in kept_logs.of_step(text, step, names) if step else text:
            echo_text(line)
            shown += 1
    if step and not shown:
        known = dict.fromkeys(stage for log in logs for stage in kept_logs.stages(kept_logs.lines(log)))
        raise UsageError(f"the run has no step of {step}", hint=f"it has {', '.join(known)}")
