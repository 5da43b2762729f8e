"""The outcome of runs: rows of what was built, reasons and advice for what failed, and the error of several runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from bakery.core.errors import BakeError, BakeryError, InterruptedBake, SomeFailed
from bakery.core.names import Kind
from bakery.plan.cells import Target
from bakery.plan.model import Plan
from bakery.plan.values import Json
from bakery.runs.buildx.bake_outcome import BakeFailure
from bakery.runs.buildx.failures import OWN_WORK
from bakery.runs.buildx.tool_errors import same_cause
from bakery.runs.cell_tasks import CellState
from bakery.runs.journal import Result
from bakery.runs.run_options import Options
from bakery.runs.run_report import CellFailure, PublishedWheel, RunReport, TargetReport
from wheel_audit.text import listed


def built_target(target: Target, state: CellState, output: Path) -> TargetReport:
    """Return the row of a target that this run built, or tried to."""
    outcome = state.outcome.targets.get(target.name) if state.outcome else None
    result = outcome.result if outcome else Result.DONE if state.result is Result.DONE else Result.CANCELED
    result = Result.CANCELED if state.failed_in and result is not Result.DONE else result
    reason = state.skip_reason
    if state.error and (result is not Result.DONE or not isinstance(state.error, BakeFailure)):
        # A wheel that was baked and refused failed, too.
        result = Result.FAILED if result is Result.DONE and target.kind is Kind.WHEEL else result
        reason = "; ".join(filter(None, (state.error.message, advice(state.error))))
    elif state.error:
        reason = f"another target of {target.cell.id} failed"
    wheels = state.wheels if target.kind is Kind.WHEEL else ()
    return TargetReport(
        name=target.name,
        cell=target.cell.id,
        result=result.value,
        seconds=outcome.seconds if outcome else 0.0,
        steps=outcome.steps if outcome else 0,
        cached=outcome.cached if outcome else 0,
        log=outcome.log if outcome and outcome.log.exists() else None,
        wheels=tuple(
            PublishedWheel(output / item.path.name, item.sha256, item.size, item.warnings, item.device)
            for item in wheels
        ),
        tries=state.tries,
        reason=reason,
        node=state.node,
        left=state.lost_nodes,
        cache=state.cache_problems,
        compiled=outcome.compiled if outcome else None,
    )


def refused(root: Path, plan: Plan, options: Options, error: BakeryError) -> RunReport:
    """Return the report of a recipe whose run could not start."""
    targets = plan.select(options.groups, options.only)
    output = options.output or root / plan.output
    rows = tuple(
        TargetReport(target.name, target.cell.id, Result.CANCELED.value, tries=0, reason=error.message)
        for target in targets
    )
    return RunReport(plan.recipe, rows, output, root, 0.0, (CellFailure(plan.recipe, error),))


def conclusion(reports: Sequence[RunReport]) -> BakeryError | None:
    """Return the error of several runs, None for success; the exit code is SomeFailed's if some cells are done."""
    cells = [done for report in reports for done in report.cells.values()]
    failures = [failure for report in reports for failure in report.failures]
    stopped = next((report for report in reports if report.stopped), None)
    if stopped and stopped.stopped != "timeout":
        return InterruptedBake(
            f"interrupted by {stopped.stopped}: the build was ended",
            hint=f"{sum(cells)} of {len(cells)} cells are done; continue with --resume; logs: {stopped.state / 'logs'}",
        )
    if all(cells):
        return None
    if len(cells) == 1 and failures:
        only = failures[0].error
        only.hint = "; ".join(filter(None, (only.hint, shell_before(failures[0]))))
        return only
    first = failures[0].error if failures else None
    failed = [cell for failure in failures for cell in failure.cells]
    details = _details(failures) if len(failed) > 1 else []
    logs = ", ".join(str(report.state / "logs") for report in reports if report.failures)
    hints = [f"logs: {logs}; bake these again with --failed"] if failures else ["continue with --resume"]
    message = f"{len(failed)} of {len(cells)} cells failed"
    if stopped:
        message = f"time limit reached with {sum(cells)} of {len(cells)} cells done"
        hints.append("or allow more time with --timeout")
    elif first and len(failed) == 1:
        message = f"{message}: {_named(failed[0], first)}"
        details = list(first.details)
        hints = [*filter(None, (first.hint, shell_before(failures[0]))), *hints]
    error = BakeError(message, hint="; ".join(hints), details=details)
    error.exit_code = SomeFailed.exit_code if any(cells) else first.exit_code if first else BakeError.exit_code
    error.title = first.title if first else BakeError.title
    return error


_LINES = 20
"""Lines of output that the failures of several cells show together; each shows a few."""

_MOST_CELLS = 8
"""Cells that are named of those that failed alike."""


def _details(failures: Sequence[CellFailure]) -> list[str]:
    """Return what failed, once for cells that failed alike: the cells, the tools' messages, advice and a log."""
    groups: dict[tuple[str, str], list[CellFailure]] = {}
    for failure in failures:
        key = (failure.error.message, advice(failure.error) or same_cause(failure.error.details))
        groups.setdefault(key, []).append(failure)
    most = max(3, _LINES // len(groups))
    details: list[str] = []
    for group in groups.values():
        error = group[0].error
        names = [cell for failure in group for cell in failure.cells]
        details.append(_named(listed(names, _MOST_CELLS), error))
        details += [f"    {line}" for line in error.details[:most]]
        details += [f"    → {advice(error)}"] if advice(error) else []
        details += [f"    → the whole log: {log}"] if (log := log_of(error)) else []
        details += [f"    → {command}"] if (command := shell_before(group[0])) else []
    return details


def _named(cells: str, error: BakeryError) -> str:
    """Return the message of an error after the cells that have it; messages of an audit name the cell themselves."""
    return error.message if error.message.startswith(f"{cells}: ") else f"{cells}: {error.message}"


def failure_json(failure: CellFailure) -> dict[str, Json]:
    """Return a failure as JSON."""
    return {
        "cell": failure.cell,
        "message": failure.error.message,
        "details": list(failure.error.details),
        "hint": advice(failure.error) or failure.error.hint or "",
        "log": str(log_of(failure.error) or ""),
        "stage": stage_of(failure.error),
        "step": index_of(failure.error),
    }


def log_of(error: BakeryError) -> Path | None:
    """Return the log of a failed step; None for other failures."""
    return error.outcome.failures[0].log if isinstance(error, BakeFailure) else None


def stage_of(error: BakeryError) -> str:
    """Return the stage of the Dockerfile whose step failed first; empty for other failures."""
    return error.outcome.failures[0].stage if isinstance(error, BakeFailure) else ""


def index_of(error: BakeryError) -> str:
    """Return which step of that stage failed, such as ``2/3``; empty for other failures."""
    return error.outcome.failures[0].index if isinstance(error, BakeFailure) else ""


def shell_before(failure: CellFailure) -> str:
    """Return the command that opens a shell before a failed step of the project's own code; empty for other failures."""
    first = failure.error.outcome.failures[0] if isinstance(failure.error, BakeFailure) else None
    if first is None or not OWN_WORK.match(first.step):
        return ""
    return f"a shell before that step: wheel-bakery shell {failure.cell} --at {shlex.quote(stage_of(failure.error))}"


def advice(error: BakeryError) -> str:
    """Return what is known to help against a failed step; empty for other failures."""
    return error.outcome.failures[0].hint if isinstance(error, BakeFailure) else ""
