"""``wheel-bakery wheel`` and its like by cibuildwheel: on macOS and Windows, and on Linux where it is asked for."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.cli.console import err, out, say

if TYPE_CHECKING:
    from bakery.build.options import Options
    from bakery.plan.model import Plan

_SYSTEMS = {"darwin": "macos", "win32": "windows"}


def this_system() -> str:
    """Return the system of this machine as recipes write it."""
    return _SYSTEMS.get(sys.platform, "linux")


def work(plans: list[tuple[Path, Plan]], chosen: Options, progress: str, ca_bundle: Path | None, system: str) -> None:
    """Build every plan's cells of a system, one after the other.

    Args:
        plans: their cells are those of the system; others are elsewhere.

    Raises:
        BakeryError: any of its kinds; what ends a recipe as a whole ends the run, a failed cell does not.
    """
    from bakery.build.cibuildwheel.run import Host, build_plan
    from bakery.cli.ending import judge, tell
    from bakery.cli.trust import find_ca_bundle

    environment = dict(os.environ)
    if system == "linux":
        from bakery.engine.discover import find

        environment |= find(os.environ).environment
    shown = progress != "quiet"

    def line(text: str) -> None:
        if shown:
            err.print(text, markup=False, highlight=False, soft_wrap=True)

    host = Host(environment, find_ca_bundle(ca_bundle, os.environ), line)
    reports = []
    for root, plan in plans:
        if left := dict.fromkeys(cell.platform.partition("/")[0] for cell in plan.elsewhere):
            say(f"{plan.recipe}: cells of {' and '.join(left)} are left out: run the same command there")
        report = build_plan(root, plan, chosen, host, system)
        reports.append(report)
        tell(report, progress)
        if report.stopped or (report.failures and chosen.keep_going is False):
            break
    judge(reports)


def print_configurations(plans: list[Plan]) -> None:
    """Print the configurations that cibuildwheel would be given."""
    from bakery.emit.cibuildwheel import configurations

    for plan in plans:
        for path, text in configurations(plan).items():
            if path.endswith(".toml"):
                out.print(text, markup=False, soft_wrap=True, end="")
