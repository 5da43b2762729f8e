"""``wheel-bakery report``: the page of a run that is kept, without an engine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import echo, say
from bakery.core.errors import UsageError


def report(
    run: Annotated[
        str,
        typer.Argument(
            help="A run, by the name of its folder. Default: the last one.",
            metavar="RUN",
            show_default=False,
        ),
    ] = "",
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    recipe: parameters.Recipes = None,
) -> None:
    """Write the page of a run: results, times, caches, memory, sizes, warnings, failures and what changed.

    Example: wheel-bakery report --open
    """
    from bakery.cli.recipes import resolved
    from bakery.runs.kept_logs import read_report
    from bakery.runs.report_page import write
    from bakery.runs.run_folders import kept_runs, state_folder

    plans = resolved(recipe, None, Path.cwd(), dated=False)
    recipes = [plan.recipe for _, plan in plans]
    kept = kept_runs(state_folder(plans[0][0], os.environ))
    folders = [path for path in kept if not run or path.name == run]
    reports = [(path, document) for path in folders if (document := read_report(path))]
    chosen = next((path for path, document in reports if run or document["recipe"] in recipes), None)
    if chosen is None and run:
        known = ", ".join(path.name for path in kept) or "none"
        raise UsageError(f"no run {run} with a report is kept", hint=f"runs are {known}")
    if chosen is None:
        raise UsageError("there is no report: nothing was baked here", hint="wheel-bakery wheel")
    page = write(chosen)
    echo(str(page))
    if open_ and typer.launch(page.absolute().as_uri()):
        say(f"no browser opened: open {page} yourself")
