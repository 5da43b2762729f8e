"""The end of runs: their tables, the wheels on stdout, a CI's summary, and the error that decides the exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.cli.console import err, out, say

if TYPE_CHECKING:
    from bakery.runreport import RunReport


def tell(report: RunReport, progress: str) -> None:
    """Print one run's table, and the wheels that it published."""
    from bakery.report.run import render

    if progress != "quiet":
        err.print(render(report))
    for target in report.targets:
        for wheel in target.wheels if progress != "rawjson" else ():
            out.print(_shown(wheel.path), markup=False, soft_wrap=True)


def judge(reports: Sequence[RunReport]) -> None:
    """Write the summary that GitHub Actions shows beside a job, where it asks for one, and judge all runs together.

    Raises:
        BakeryError: not all of it is done.
    """
    from bakery.conclusion import conclusion

    _summarize(reports)
    if not any(report.targets for report in reports):
        say("nothing failed in the last run: nothing to bake")
    judged = conclusion(reports)
    if judged:
        raise judged


def _summarize(reports: Sequence[RunReport]) -> None:
    from bakery.report.run import markdown

    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place:
        return
    try:
        with Path(place).open("a", encoding="utf-8", errors="replace") as file:
            file.write(markdown(reports) + "\n")
    except OSError as error:
        say(f"cannot write the step summary {place}: {error.strerror}")


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
