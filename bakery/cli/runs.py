"""Runs one recipe after the other, and reports: tables, the wheels on stdout, the summary for CI, the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.cli.console import (
    echo,
    echo_json,
    echo_text,
    err,
    has_step_summary,
    progress_display,
    say,
    show,
    write_step_summary,
)
from bakery.core.errors import BakeryError, EngineError, InterruptedBake, UsageError

if TYPE_CHECKING:
    from bakery.plan.model import Plan
    from bakery.runs.run_options import Options
    from bakery.runs.run_report import RunReport
    from bakery.runs.selection import Selection

Plans = Sequence[tuple[Path, "Plan"]]
Build = Callable[[Path, "Plan", "Options"], "RunReport"]

_SYSTEMS = {"darwin": "macos", "win32": "windows"}


@dataclass(frozen=True, slots=True)
class Early:
    """What is known of the recipes before the engine is opened.

    Attributes:
        reports: recipe → report, if all of its selected cells are up to date.
        selections: recipe → what is to be built, if that is known.
    """

    reports: Mapping[str, RunReport] = field(default_factory=dict)
    selections: Mapping[str, Selection] = field(default_factory=dict)


def early(plans: Plans, options: Options) -> Early:
    """Select the cells of plans without an engine; report on those that need no bake."""
    from bakery.runs.selection import early_report, select_early

    found = {plan.recipe: select_early(root, plan, options, os.environ) for root, plan in plans}
    selections = {recipe: chosen for recipe, chosen in found.items() if chosen}
    reports = {recipe: early_report(chosen) for recipe, chosen in selections.items()}
    return Early({recipe: report for recipe, report in reports.items() if report}, selections)


def require_runs(plans: Plans) -> None:
    """Raise UsageError if no run of any recipe is known here: nobody knows which cells failed."""
    from bakery.runs.journal import newest_records
    from bakery.runs.run_folders import state_folder

    if not any(newest_records(state_folder(root, os.environ), plan.recipe) for root, plan in plans):
        names = ", ".join(plan.recipe for _, plan in plans)
        raise UsageError(
            f"--failed: no run of {names} is known on this machine, so no cell is known to have failed",
            hint="run the command without --failed",
        )


def one_name(plans: Plans, options: Options) -> list[str]:
    """Return warnings about recipes that build wheels of one name, as far as plans tell: the later one will be refused."""
    from bakery.plan.values import substitute

    owners: dict[object, dict[str, str]] = {}
    for root, plan in plans:
        source = root / plan.source_context.folder if plan.source_context.folder else plan.audit.name
        for cell in plan.cells if source else ():
            if cell.built_by != cell.id:
                continue
            values, audit = plan.values_of_wheel(cell), plan.of(cell).audit
            output = options.output or root / plan.output
            tags = (cell.axes["python"], cell.platform, cell.is_musl, audit.plat, audit.abi3, audit.py3)
            for naming in audit.namings:
                name = [substitute(part, values) for part in (naming.name, naming.local, naming.build_tag)]
                key = (output, source, plan.facts.subdirectory, *tags, naming.clean, *name)
                owners.setdefault(key, {}).setdefault(plan.recipe, cell.id)
    shared = dict.fromkeys(tuple(cells) for cells in owners.values() if len(cells) > 1)
    fix = "tell them apart with wheel.naming, or give them other folders (output.directory)"
    return [f"recipes {' and '.join(recipes)} build wheels of one name from one source: {fix}" for recipes in shared]


def run(
    plans: Plans,
    options: Options,
    progress: str,
    ca_bundle: Path | None,
    *,
    known: Early = Early(),
    system: str = "",
    engine_up: bool = False,
    as_json: bool = False,
) -> None:
    """Build every plan, one after the other, print each report, and judge all reports together.

    ``system`` has the cells that cibuildwheel builds; without it, bake. Raises BakeryError after everything that can be
    done is done; with cibuildwheel, an error of a whole recipe ends the run.
    """
    if system:
        build = _cibuildwheel(progress, ca_bundle, system)
    elif len(known.reports) < len(plans):
        build = _bake(options.builder, progress, ca_bundle, engine_up, known)
    if system or not options.only:
        _say_skipped_systems(plans)
    for text in one_name(plans, options):
        say(f"warning: {text}")
    keep_going = options.keep_going
    if keep_going is None:
        keep_going = bool(system) or _has_several_cells(plans, options)
    options = replace(options, keep_going=keep_going)
    reports: list[RunReport] = []
    goes_on = keep_going and not system and len(plans) > 1
    for root, plan in plans:
        report = known.reports.get(plan.recipe) or _report(build, root, plan, options, goes_on=goes_on)
        reports.append(report)
        _print_report(report, progress, as_json=as_json)
        if report.stopped or (report.failures and not options.keep_going):
            break
    if has_step_summary():
        from bakery.cli.tables.run import markdown

        write_step_summary(markdown(reports))
    if as_json:
        print_json(reports)
    if not any(report.targets for report in reports):
        say("no cell failed in its last run: nothing to bake")
    _raise_failure(reports)


def _report(build: Build, root: Path, plan: Plan, options: Options, *, goes_on: bool) -> RunReport:
    """Build a plan. If the run ``goes_on`` with others, an error becomes the plan's report, except without an engine."""
    try:
        return build(root, plan, options)
    except (EngineError, InterruptedBake):
        raise
    except BakeryError as error:
        if not goes_on:
            raise
        from bakery.runs.conclusion import refused

        show(error)
        return refused(root, plan, options, error)


def _raise_failure(reports: Sequence[RunReport]) -> None:
    if all(report.is_kept for report in reports):
        return
    # Slow to import.
    from bakery.runs.conclusion import conclusion

    if failure := conclusion(reports):
        raise failure


def _has_several_cells(plans: Plans, options: Options) -> bool:
    targets = [(plan, target) for _, plan in plans for target in plan.select(options.groups, options.only)]
    return len({(plan.recipe, target.cell.id) for plan, target in targets}) > 1


def _bake(builder: str | None, progress: str, ca_bundle: Path | None, engine_up: bool, known: Early) -> Build:
    """Open the engine; return the function that bakes a plan."""
    from bakery.cli.engine import open_engine
    from bakery.runs.pipeline import bake_plan

    engine = open_engine(ca_bundle, engine_up=engine_up, builder=builder)
    builder = None if engine.nodes else builder

    def build(root: Path, plan: Plan, options: Options) -> RunReport:
        options = replace(options, builder=builder)
        return bake_plan(root, plan, options, engine, progress_display(progress), known.selections.get(plan.recipe))

    return build


def _cibuildwheel(progress: str, ca_bundle: Path | None, system: str) -> Build:
    """Return the function that builds a plan's cells of a system with cibuildwheel."""
    from bakery.engine.ca_bundle import find_ca_bundle
    from bakery.engine.discover import find
    from bakery.runs.cibuildwheel.run import Host, build_plan

    environment = {**os.environ, **(find(os.environ).environment if system == "linux" else {})}

    def print_line(text: str) -> None:
        if progress != "quiet":
            say(text)

    host = Host(environment, find_ca_bundle(ca_bundle, os.environ), print_line)
    return lambda root, plan, options: build_plan(root, plan, options, host, system)


def this_system() -> str:
    """Return the system of this machine, by its name in recipes."""
    return _SYSTEMS.get(sys.platform, "linux")


def print_configurations(plans: Sequence[Plan]) -> None:
    """Print the configurations for cibuildwheel."""
    from bakery.emit.cibuildwheel import configurations

    for plan in plans:
        for path, text in configurations(plan).items():
            if path.endswith(".toml"):
                echo_text(text.rstrip("\n"))


def _say_skipped_systems(plans: Plans) -> None:
    for _, plan in plans:
        if systems := dict.fromkeys(cell.platform.partition("/")[0] for cell in plan.cibuildwheel_cells):
            names = " and ".join(systems)
            say(f"{plan.recipe}: skipping {len(plan.cibuildwheel_cells)} cells for {names}: run the same command there")


def print_json(reports: Sequence[RunReport]) -> None:
    """Print the reports of a run as one JSON document, with the path of each one's folder."""
    echo_json({"runs": [{**report.to_json(), "state": str(report.state)} for report in reports]})


def _print_report(report: RunReport, progress: str, *, as_json: bool) -> None:
    """Print the table of a run, and the wheels that it published; nothing if all reports are printed as JSON."""
    if as_json:
        return
    if progress != "quiet" and report.is_kept:
        say(f"{report.recipe}: {_up_to_date(report)}; --rebuild bakes anyway")
        for text in report.warnings:
            say(f"warning: {report.recipe}: {text}")
    elif progress != "quiet":
        from bakery.cli.tables.run import render

        err.print(render(report))
        if (page := report.state / "report.html").is_file():
            say(f"report: {_from_here(page)}")
    for wheel in report.wheels if progress != "rawjson" else ():
        echo(str(_from_here(wheel.path)))


def _from_here(path: Path) -> Path:
    """Return a path as people read it: from the working directory, if it is below."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _up_to_date(report: RunReport) -> str:
    """Return in one line what a run without a bake found."""
    cells, wheels = len(report.cells), len(report.wheels)
    what = f"{cells} cells are up to date" if cells > 1 else "the cell is up to date"
    return f"{what}, {wheels} wheel{'s' if wheels > 1 else ''} in {report.output}" if wheels else what
