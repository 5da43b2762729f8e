"""Audits one wheel: reads it, runs every check, reports."""

from __future__ import annotations

from pathlib import Path

from bakery.audit.checks import run_checks
from bakery.audit.promise import Promise
from bakery.audit.report import WheelReport, make_report
from bakery.audit.wheel import read_wheel
from bakery.errors import OutputError


def audit_wheel(path: Path, promise: Promise | None = None) -> WheelReport:
    """Audit one wheel; without a promise, its own name is what it must live up to.

    A file that is no wheel gets a report with errors, never an exception.

    Raises:
        OutputError: the file cannot be opened.
    """
    try:
        wheel = read_wheel(path)
    except OSError as reason:
        raise OutputError(f"cannot read {path}: {reason.strerror or reason}") from reason
    return make_report(wheel, run_checks(wheel, promise or Promise()))
