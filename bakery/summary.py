"""What the report of a run says of each target."""

from __future__ import annotations

from pathlib import Path

from bakery.drive.journal import Record
from bakery.drive.outcome import BakeFailure, Result
from bakery.names import Kind
from bakery.plan import Target
from bakery.report.run import PublishedWheel, TargetReport
from bakery.runner import Told


def kept_target(target: Target, record: Record, output: Path) -> TargetReport:
    """Return the row of a target that an earlier run has done with."""
    wheels = record.wheels if target.kind is Kind.WHEEL else ()
    return TargetReport(
        name=target.name,
        cell=target.cell.id,
        result=Result.KEPT.value,
        seconds=0.0,
        steps=0,
        cached=0,
        log=None,
        wheels=tuple(PublishedWheel(output / item.name, item.sha256, item.size) for item in wheels),
        tries=0,
    )


def baked_target(target: Target, told: Told, output: Path) -> TargetReport:
    """Return the row of a target that this run took up, whatever became of it."""
    outcome = told.outcome.targets[target.name] if told.outcome else None
    result = outcome.result if outcome else Result.CANCELED
    result = Result.CANCELED if told.stopped and result is not Result.DONE else result
    reason = told.why
    if told.error and (result is not Result.DONE or not isinstance(told.error, BakeFailure)):
        # A wheel that was baked and refused failed, too.
        result = Result.FAILED if result is Result.DONE and target.kind is Kind.WHEEL else result
        reason = told.error.message
    elif told.error:
        reason = f"another target of {target.cell.id} failed"
    wheels = told.wheels if target.kind is Kind.WHEEL else ()
    return TargetReport(
        name=target.name,
        cell=target.cell.id,
        result=result.value,
        seconds=outcome.seconds if outcome else 0.0,
        steps=outcome.steps if outcome else 0,
        cached=outcome.cached if outcome else 0,
        log=outcome.log if outcome and outcome.log.exists() else None,
        wheels=tuple(PublishedWheel(output / item.path.name, item.sha256, item.size, item.warnings) for item in wheels),
        tries=told.tries,
        reason=reason,
        node=told.node,
        left=told.left,
        cache=told.cache,
        compiled=outcome.compiled if outcome else None,
    )
