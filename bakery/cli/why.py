"""``wheel-bakery why``: which stages of a cell are built again, and because of what; without an engine."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import echo, echo_json, say
from bakery.cli.profile import builder_of, times_of
from bakery.core.errors import UsageError
from bakery.core.text import count

if TYPE_CHECKING:
    from bakery.plan.model import Plan
    from bakery.runs.rebuild_reasons import Reason


def why(
    cell: Annotated[
        str,
        typer.Argument(
            help="A cell's id, as `wheel-bakery plan` shows it. Default: all that were baked.", metavar="CELL"
        ),
    ] = "",
    recipe: parameters.Recipes = None,
    set_: parameters.Sets = None,
    every: Annotated[bool, typer.Option("--all", help="Show each stage, with one of its reasons.")] = False,
    compiler_cache: Annotated[
        bool, typer.Option("--compiler-cache", help="Explain what the compiler cache did not have in the last run.")
    ] = False,
    json: parameters.AsJson = False,
) -> None:
    """Explain what the next run builds again, and why, the cause first; if nothing changed, what the last run built again.

    Example: wheel-bakery why cp312
    """
    cells = [builder_of(cell, recipe, set_)] if cell else _baked(recipe, set_)
    if compiler_cache:
        for root, plan, name in cells:
            _print_misses(root, plan, name, json)
        return
    texts: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for root, plan, name in cells:
        bake, run, reasons = _explained(root, plan, name)
        if json:
            stages = [{"stage": item.stage, "state": item.state, "because": list(item.because)} for item in reasons]
            echo_json({"cell": name, "bake": bake, "run": run, "stages": stages})
            continue
        title = f"the next run, after {run}:" if bake == "next" else f"nothing changed since the last run; in {run}:"
        texts.setdefault((title, tuple(_by_stage(reasons) if every else _by_cause(reasons))), []).append(name)
    for (title, lines), names in texts.items():
        say(f"{', '.join(names)}: {title}" if len(cells) > 1 else title)
        for line in lines:
            echo(line)


def _baked(recipe: list[str] | None, sets: list[str] | None) -> list[tuple[Path, Plan, str]]:
    """Return the cells that a kept run baked, and that build a wheel. Raises UsageError if there are none."""
    from bakery.cli.recipes import resolved
    from bakery.runs.cell_inputs import bakes_of
    from bakery.runs.run_folders import state_folder

    cells = [
        (root, plan, name)
        for root, plan in resolved(recipe, sets, Path.cwd(), dated=True)
        for name in plan.cells_by_builder()
        if next(iter(bakes_of(state_folder(root, os.environ), plan.recipe, name)), None)
    ]
    if not cells:
        raise UsageError("no kept run baked a cell", hint="bake one: wheel-bakery wheel")
    return cells


def _by_stage(reasons: Sequence[Reason]) -> Iterator[str]:
    """Yield a line for each stage that may run again, and one with all others."""
    yield from (str(item) for item in reasons if item.state != "cached")
    if cached := [item.stage for item in reasons if item.state == "cached"]:
        yield f"cached: {', '.join(cached)}"


def _by_cause(reasons: Sequence[Reason]) -> Iterator[str]:
    """Yield a line for each cause: ``src/lexer.c changed: project and compile run again``; then what follows from them."""
    causes: dict[str, list[str]] = {}
    for item in reasons:
        if item.state == "rebuilt" and not item.follows:
            causes.setdefault(item.because[0], []).append(item.stage)
    # What the user edited comes before what another Bakery or recipe brings.
    is_other = re.compile(r"program |.*(?<! changed)$").match
    for cause, stages in sorted(causes.items(), key=lambda item: bool(is_other(item[0]))):
        yield f"{cause}: {_listed(stages)} again"
    if after := [item.stage for item in reasons if item.state == "rebuilt" and item.follows]:
        yield f"with them: {_listed(after)} again"
    if maybe := [item.stage for item in reasons if item.state == "depends"]:
        yield f"only if a result of these differs: {len(maybe)} more"
    yield f"cached: {sum(item.state == 'cached' for item in reasons)} of {len(reasons)} stages (--all lists them)"


def _listed(stages: Sequence[str]) -> str:
    first, last = ", ".join(stages[:-1]), stages[-1]
    return f"{first} and {last} run" if first else f"{last} runs"


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
        command = shlex.join(["wheel-bakery", "wheel", "--only", cell, "--recipe", plan.reference])
        raise UsageError(f"no kept run baked {cell}", hint=f"bake it: {command}")
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
    say(f"the compiler cache did not have {count(len(misses), 'file')}")
