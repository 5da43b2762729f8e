"""Audits one wheel: reads it, runs every check, reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bakery.audit.archive import Archive
from bakery.audit.checks import run_checks
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.metadata import Metadata
from bakery.audit.report import WheelReport, make_report
from bakery.audit.symbols import Symbols
from bakery.audit.tools import AuditwheelReport, ToolResults
from bakery.audit.wheel import Wheel, parse_name, read_wheel
from bakery.audit.worker import LimitExceeded, call
from bakery.core.errors import OutputError
from bakery.core.files import open_plain


def audit_wheel(path: Path, expected: ExpectedWheel | None = None) -> WheelReport:
    """Audit one wheel; without a expected, its own name is what it must live up to.

    A file that is no wheel gets a report with errors, never an exception.

    Raises:
        OutputError: the file cannot be opened.
    """
    try:
        wheel = read_wheel(path)
    except OSError as reason:
        raise OutputError(f"cannot read {path}: {reason.strerror or reason}") from reason
    return make_report(wheel, run_checks(wheel, expected or ExpectedWheel()))


def audit_in_worker(path: Path, expected: ExpectedWheel | None = None) -> WheelReport:
    """Audit one wheel as `audit_wheel` does, in a process with limits; exceeding one is a finding that names it.

    Raises:
        OutputError: the file cannot be opened.
    """
    try:
        with open_plain(path) as file:
            size = file.seek(0, 2)
    except OSError as reason:
        raise OutputError(f"cannot read {path}: {reason.strerror or reason}") from reason
    try:
        report = call(_audit, path.absolute(), expected, size=size)
    except OutputError:
        raise
    except LimitExceeded as reason:
        hint = "no sound wheel takes that much; where one does, that is a defect of bakery"
        return _unfinished(path, size, error("audit-limit", f"the audit was ended: {reason.message}", hint=hint))
    except Exception as reason:
        text = f"the audit failed: {type(reason).__name__}: {reason}"[:2000]
        return _unfinished(path, size, error("audit-failed", text, hint="this is a bug in bakery"))
    return replace(report, path=path)


def _audit(path: Path, expected: ExpectedWheel | None) -> WheelReport:
    """Return a report without what only the checks need: a hundred thousand names, of some libraries."""
    report = audit_wheel(path, expected)
    objects = (replace(binary, symbols=Symbols(cxx_abi=binary.symbols.cxx_abi)) for binary in report.objects)
    return replace(report, objects=tuple(objects))


def _unfinished(path: Path, size: int, finding: Finding) -> WheelReport:
    """Return the report on a wheel of which nothing is known but its name and size."""
    wheel = Wheel(path, "", parse_name(path.name), Archive(size=size), Metadata(), AuditwheelReport(), ToolResults())
    return make_report(wheel, [finding])
