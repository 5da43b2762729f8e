"""``wheel-bakery shell``: a shell in the state before a step of a cell."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import say
from bakery.core.errors import UsageError


def shell(
    cell: Annotated[str, typer.Argument(help="A cell's id, as `wheel-bakery plan` shows it.", metavar="CELL")],
    at: Annotated[
        str,
        typer.Option(
            "--at",
            help="The stage: the shell is opened before its command that failed when the cell was baked last; before its "
            "last command, if none did. Default: the stage that failed; compile, if none did.",
            metavar="STAGE",
            show_default=False,
        ),
    ] = "",
    recipe: parameters.Recipes = None,
    set_: parameters.Sets = None,
    allow: parameters.Allow = None,
    builder: parameters.Builder = None,
    ca_bundle: parameters.CaBundle = None,
    engine_up: parameters.EngineUp = False,
) -> None:
    """Open a shell in the state before a step, with its environment, mounts and network; its command is in the history.

    Example: wheel-bakery shell cp312 --at compile
    """
    from bakery.cli.engine import open_engine
    from bakery.cli.recipes import cell_named, checked, resolved
    from bakery.runs.kept_logs import failed_step
    from bakery.runs.run_folders import state_folder
    from bakery.runs.run_options import Options
    from bakery.runs.step_shell import command_at, open_shell, stage_named, stages

    if sys.platform == "win32":
        raise UsageError("a shell needs a terminal of Linux or macOS", hint="run it in WSL")
    plans = resolved(recipe, set_, Path.cwd(), dated=True)
    root, plan, chosen = cell_named(cell, plans)
    failed, step = failed_step(state_folder(root, os.environ), plan.recipe, cell)
    stage = stage_named(plan, chosen, at or (failed if failed in stages(plan, chosen) else "compile"))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        words = ["wheel-bakery", "logs", cell, "--step", stage.name, "--recipe", plan.reference]
        raise UsageError("a shell needs a terminal", hint=shlex.join(words))
    checked([(root, plan)], bake=True, builder=builder)
    engine = open_engine(ca_bundle, engine_up=engine_up, builder=builder)
    command = command_at(stage, step if stage.name == failed else "")
    say("building up to the command …")
    options_ = Options(("wheel",), allow=tuple(allow or ()), builder=builder)
    open_shell(root, plan, chosen, stage, command, options_, engine)
