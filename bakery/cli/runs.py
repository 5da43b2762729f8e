"""Runs one recipe after the other, and reports: tables, the wheels on stdout, the summary for CI, the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.cli.console import echo, err, out, progress_display, say, show
from bakery.core.errors import BakeryError, EngineError, InterruptedBake

if TYPE_CHECKING:
    from bakery.build.options import Options
    from bakery.build.report import RunReport
    from bakery.plan.model import Plan

Plans = Sequence[tuple[Path, "Plan"]]

_SYSTEMS = {"darwin": "macos", "win32": "windows"}


def run(plans: Plans, chosen: Options, progress: str, ca_bundle: Path | None, *, engine_up: bool) -> None:
    """Bake every plan, one after the other.

    Raises:
        BakeryError: of any kind, after everything that can be done is done.
    """
    from bakery.build.exit_status import refused
    from bakery.build.pipeline import bake_plan
    from bakery.cli.engine import open_engine

    engine = open_engine(ca_bundle, engine_up=engine_up, builder=chosen.builder)
    if not chosen.only:
        _say_skipped_systems(plans)
    if chosen.keep_going is None:
        targets = [(plan, target) for _, plan in plans for target in plan.select(chosen.groups, chosen.only)]
        chosen = replace(chosen, keep_going=len({(plan.recipe, target.cell.id) for plan, target in targets}) > 1)
    chosen = replace(chosen, builder=None if engine.nodes else chosen.builder)

    def bake(root: Path, plan: Plan) -> RunReport:
        try:
            return bake_plan(root, plan, chosen, engine, progress_display(progress))
        except (EngineError, InterruptedBake):
            raise
        except BakeryError as error:
            if len(plans) == 1 or not chosen.keep_going:
                raise
            show(error)
            return refused(root, plan, chosen, error)

    _run_all(plans, bake, progress, fail_fast=not chosen.keep_going)


def run_cibuildwheel(plans: Plans, chosen: Options, progress: str, ca_bundle: Path | None, system: str) -> None:
    """Build the cells of a system with cibuildwheel, one plan after the other.

    Raises:
        BakeryError: of any kind. What ends a recipe as a whole ends the run, a failed cell does not.
    """
    from bakery.build.cibuildwheel.run import Host, build_plan
    from bakery.cli.engine import find_ca_bundle
    from bakery.engine.discover import find

    environment = {**os.environ, **(find(os.environ).environment if system == "linux" else {})}

    def print_line(text: str) -> None:
        if progress != "quiet":
            err.print(text, markup=False, highlight=False, soft_wrap=True)

    machine = Host(environment, find_ca_bundle(ca_bundle, os.environ), print_line)
    _say_skipped_systems(plans)
    _run_all(
        plans,
        lambda root, plan: build_plan(root, plan, chosen, machine, system),
        progress,
        fail_fast=chosen.keep_going is False,
    )


def this_system() -> str:
    """Return the system of this machine, by its name in recipes."""
    return _SYSTEMS.get(sys.platform, "linux")


def print_configurations(plans: Sequence[Plan]) -> None:
    """Print the configurations for cibuildwheel."""
    from bakery.emit.cibuildwheel import configurations

    for plan in plans:
        for path, text in configurations(plan).items():
            if path.endswith(".toml"):
                out.print(text, markup=False, soft_wrap=True, end="")


def _run_all(plans: Plans, bake: Callable[[Path, Plan], RunReport], progress: str, *, fail_fast: bool) -> None:
    """Run ``bake`` for every plan, print each report, and judge all reports together.

    Raises:
        BakeryError: not everything is done.
    """
    from bakery.build.exit_status import conclusion

    reports: list[RunReport] = []
    for root, plan in plans:
        report = bake(root, plan)
        reports.append(report)
        _print_report(report, progress)
        if report.stopped or (report.failures and fail_fast):
            break
    _write_step_summary(reports)
    if not any(report.targets for report in reports):
        say("no cell failed in the last run: nothing to bake")
    if failure := conclusion(reports):
        raise failure


def _say_skipped_systems(plans: Plans) -> None:
    for _, plan in plans:
        if systems := dict.fromkeys(cell.platform.partition("/")[0] for cell in plan.cibuildwheel_cells):
            names = " and ".join(systems)
            say(f"{plan.recipe}: skipping {len(plan.cibuildwheel_cells)} cells for {names}: run the same command there")


def _print_report(report: RunReport, progress: str) -> None:
    """Print the table of a run, and the wheels that it published."""
    from bakery.cli.tables.run import render

    if progress != "quiet":
        err.print(render(report))
    for target in report.targets:
        for wheel in target.wheels if progress != "rawjson" else ():
            is_below = wheel.path.is_relative_to(Path.cwd())
            echo(str(wheel.path.relative_to(Path.cwd()) if is_below else wheel.path))


def _write_step_summary(reports: Sequence[RunReport]) -> None:
    """Append to the summary that GitHub Actions shows for a job, if it asks for one."""
    from bakery.cli.tables.run import markdown

    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8", errors="replace") as file:
            file.write(markdown(reports) + "\n")
    except OSError as error:
        say(f"cannot write the step summary {path}: {error.strerror}")
