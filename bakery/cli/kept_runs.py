"""What the runs that are kept tell, without an engine: ``logs``, ``report``, ``profile`` and ``why``."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bakery.cli import parameters
from bakery.cli.console import echo, echo_json, echo_text, out, say
from bakery.cli.recipes import cell_named, resolved
from bakery.core.errors import OutputError, UsageError
from bakery.core.text import count
from bakery.runs.run_folders import kept_runs, state_folder

if TYPE_CHECKING:
    from bakery.plan.model import Plan
    from bakery.runs.cell_profile import CellProfile
    from bakery.runs.rebuild_reasons import Reason


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
    from bakery.runs import kept_logs

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
    from bakery.runs.kept_logs import read_report
    from bakery.runs.report_page import write

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

    # With the commit's time, as a bake has it: `why` compares the two.
    root, plan, _ = cell_named(cell, resolved(recipe, sets, Path.cwd(), dated=True))
    builder = next(name for name, cells in plan.cells_by_builder().items() if cell in [item.id for item in cells])
    if builder != cell:
        say(f"{cell} has the wheel of {builder}")
    return root, plan, builder


def times_of(root: Path, plan: Plan, cell: str) -> tuple[CellProfile, Path, bool]:
    """Return what `cell_profile.find` returns. Raises UsageError if no kept run has times of the cell."""
    from bakery.runs.cell_profile import find

    return find(state_folder(root, os.environ), plan.recipe, cell, plan.reference)


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
    from bakery.runs.cell_inputs import bakes_of

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
