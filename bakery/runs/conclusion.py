"""How runs ended: a row for each target, and the one error of several runs, which the command or the library raises."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bakery.core.errors import BakeError, BakeryError, InterruptedBake, SomeFailed
from bakery.core.target_kinds import Kind
from bakery.plan.cells import Target
from bakery.plan.model import Plan
from bakery.runs.buildx.bake_outcome import TargetOutcome
from bakery.runs.buildx.failures import BakeFailure, advice, same_cause
from bakery.runs.cell_tasks import CellState
from bakery.runs.journal import Result
from bakery.runs.run_options import Options
from bakery.runs.run_report import CellFailure, PublishedWheel, RunReport, TargetReport
from wheel_audit.text import listed


def built_target(target: Target, state: CellState, output: Path, memory: int) -> TargetReport:
    """Return the row of a target that this run built, or tried to; ``memory``: MB that its cell needed at most."""
    outcome = state.outcome.targets.get(target.name) if state.outcome else None
    result = result_of(state, outcome, target.kind)
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
        reason=_reason(state, result, target.cell.id),
        node=state.node,
        left=state.lost_nodes,
        cache=state.cache_problems,
        compiled=outcome.compiled if outcome else None,
        memory=memory,
    )


def result_of(state: CellState, outcome: TargetOutcome | None, kind: Kind) -> Result:
    """Return what became of a target of a cell."""
    if outcome is None:
        return Result.DONE if state.result is Result.DONE else Result.CANCELED
    if outcome.result is not Result.DONE:
        return Result.CANCELED if state.failed_in else outcome.result
    # A wheel that was baked and refused failed, too.
    is_refused = kind is Kind.WHEEL and state.error and not isinstance(state.error, BakeFailure)
    return Result.FAILED if is_refused else Result.DONE


def _reason(state: CellState, result: Result, cell: str) -> str:
    """Return why a target is not done."""
    if not state.error:
        return state.skip_reason
    if result is Result.DONE and isinstance(state.error, BakeFailure):
        return f"another target of {cell} failed"
    return "; ".join(filter(None, (state.error.message, advice(state.error))))


def refused(root: Path, plan: Plan, options: Options, error: BakeryError) -> RunReport:
    """Return the report of a recipe whose run could not start."""
    rows = tuple(
        TargetReport(target.name, target.cell.id, Result.CANCELED.value, tries=0, reason=error.message)
        for target in plan.select(options.groups, options.only)
    )
    output = options.output or root / plan.output
    return RunReport(plan.recipe, rows, output, root, 0.0, (CellFailure(plan.recipe, error),))


_LINES = 20
"""Lines of output that the failures of several cells show together; each shows a few."""

_MOST_CELLS = 8
"""Cells that are named of those that failed alike."""


def conclusion(reports: Sequence[RunReport]) -> BakeryError | None:
    """Return the error of several runs, None for success; it is `SomeFailed` if some cells are done."""
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
        return failures[0].error
    first = failures[0].error if failures else BakeError("")
    failed = [cell for failure in failures for cell in failure.cells]
    logs = ", ".join(str(report.state / "logs") for report in reports if report.failures)
    hints = [f"logs: {logs}; bake these again with --failed"] if failures else ["continue with --resume"]
    details = _details(failures) if len(failed) > 1 else []
    if stopped:
        message = f"time limit reached with {sum(cells)} of {len(cells)} cells done"
        hints.append("or allow more time with --timeout")
    elif len(failed) == 1:
        message = f"1 of {len(cells)} cells failed: {_named(failed[0], first)}"
        details = list(first.details)
        hints = [*filter(None, [first.hint]), *hints]
    else:
        message = f"{len(failed)} of {len(cells)} cells failed"
    hint = "; ".join(hints)
    if any(cells):
        return SomeFailed(message, hint=hint, details=details, title=first.title)
    return BakeError(message, hint=hint, details=details, exit_code=first.exit_code, title=first.title)


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
        if isinstance(error, BakeFailure):
            log = error.outcome.failures[0].log
            lines = (advice(error), f"the whole log: {log}" if log else "", error.shell)
            details += [f"    → {line}" for line in lines if line]
    return details


def _named(cells: str, error: BakeryError) -> str:
    """Return the message of an error after the cells that have it; messages of an audit name the cell themselves."""
    return error.message if error.message.startswith(f"{cells}: ") else f"{cells}: {error.message}"
