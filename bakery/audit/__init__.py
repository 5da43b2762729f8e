"""The audit: reads the wheel that came out and compares it with what was promised.

It knows nothing of recipes, plans or engines, so any wheel can be audited. Reading (``archive``, ``elf``,
``metadata``, ``verdict``) collects facts; each file of ``checks`` judges them.
"""

from __future__ import annotations

from pathlib import Path

from bakery.audit.checks import check_ids, run_checks
from bakery.audit.elf import SharedObject
from bakery.audit.finding import Finding, Severity
from bakery.audit.promise import Promise
from bakery.audit.report import WheelReport, make_report
from bakery.audit.wheel import read_wheel
from bakery.errors import OutputError

__all__ = ["Finding", "Promise", "Severity", "SharedObject", "WheelReport", "audit_wheel", "check_ids"]


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
