"""The result of several runs: success, or one error with one exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bakery.build.buildx.outcome import Result
from bakery.build.options import Options
from bakery.build.report import CellFailure, RunReport, TargetReport
from bakery.core.errors import BakeError, BakeryError, InterruptedBake, SomeFailed
from bakery.plan.model import Plan


def refused(root: Path, plan: Plan, options: Options, error: BakeryError) -> RunReport:
    """Return the report of a recipe whose run could not start."""
    targets = plan.select(options.groups, options.only)
    output = options.output or root / plan.output
    rows = tuple(
        TargetReport(target.name, target.cell.id, Result.CANCELED.value, tries=0, reason=error.message)
        for target in targets
    )
    return RunReport(plan.recipe, rows, output, root / ".bakery", 0.0, (CellFailure(plan.recipe, error),))


def conclusion(reports: Sequence[RunReport]) -> BakeryError | None:
    """Return the error of several runs; None if everything is done.

    If some cells are done, the exit code is that of `SomeFailed`; if none is, that of the first failure.
    """
    cells = [done for report in reports for done in report.cells.values()]
    failures = [failure for report in reports for failure in report.failures]
    stopped = next((report for report in reports if report.stopped), None)
    if stopped and stopped.stopped != "timeout":
        return InterruptedBake(
            f"interrupted by {stopped.stopped}: the build was ended",
            hint=f"{sum(cells)} of {len(cells)} cells are done; go on with --resume; logs: {stopped.state / 'logs'}",
        )
    if all(cells):
        return None
    if len(cells) == 1 and failures:
        return failures[0].error
    first = failures[0].error if failures else None
    details = [f"{failure.cell}: {failure.error.message}" for failure in failures] if len(failures) > 1 else []
    logs = ", ".join(str(report.state / "logs") for report in reports if report.failures)
    hints = [f"logs: {logs}; bake these again with --failed"] if failures else ["go on with --resume"]
    message = f"{len(failures)} of {len(cells)} cells failed"
    if stopped:
        message = f"the time was over with {sum(cells)} of {len(cells)} cells done"
        hints.append("or allow more time with --timeout")
    elif first and len(failures) == 1:
        message = f"{message}: {first.message}"
        details = list(first.details)
        hints = [first.hint, *hints] if first.hint else hints
    error = BakeError(message, hint="; ".join(hints), details=details)
    error.exit_code = SomeFailed.exit_code if any(cells) else first.exit_code if first else BakeError.exit_code
    error.title = first.title if first else BakeError.title
    return error
