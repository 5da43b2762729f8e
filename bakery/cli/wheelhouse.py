"""``bakery wheel`` and its like by cibuildwheel: on macOS and Windows, and on Linux where it is asked for."""

from __future__ import annotations

import os
from pathlib import Path

from bakery.cli.console import err, out, say
from bakery.plan import Plan


def work(
    plans: list[tuple[Path, Plan]],
    groups: tuple[str, ...],
    only: tuple[str, ...],
    output: Path | None,
    progress: str,
    ca_bundle: Path | None,
) -> None:
    """Build every plan's cells of this system, one after the other.

    Raises:
        BakeryError: any of its kinds; the first recipe that fails ends the run.
    """
    from bakery.cli.trust import find_ca_bundle
    from bakery.report.run import render
    from bakery.wheelhouse import BuildFailed, Wheelhouse, build_plan, this_system

    system = this_system()
    environment = dict(os.environ)
    if system == "linux":
        from bakery.drive.find import find

        environment |= find(os.environ).environment
    shown = progress != "quiet"

    def line(text: str) -> None:
        if shown:
            err.print(text, markup=False, highlight=False, soft_wrap=True)

    given = Wheelhouse(environment, groups, only, output, find_ca_bundle(ca_bundle, os.environ), line)
    for root, plan in plans:
        others = dict.fromkeys(cell.platform.partition("/")[0] for cell in (*plan.cells, *plan.elsewhere))
        if left := [name for name in others if name != system]:
            say(f"{plan.recipe}: cells of {' and '.join(left)} are left out: run the same command there")
        try:
            report = build_plan(root, plan, given, system)
        except BuildFailed as failed:
            err.print(render(failed.report))
            raise
        if shown:
            err.print(render(report))
        for target in report.targets:
            for wheel in target.wheels:
                out.print(str(wheel.path), markup=False, soft_wrap=True)


def show(plans: list[Plan]) -> None:
    """Print the configurations that cibuildwheel would be given."""
    from bakery.emit.cibuildwheel import configurations

    for plan in plans:
        for path, text in configurations(plan).items():
            if path.endswith(".toml"):
                out.print(text, markup=False, soft_wrap=True, end="")
