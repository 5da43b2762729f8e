"""Audits one wheel: reads it, runs all checks, reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bakery.audit.archive import Archive
from bakery.audit.checks import run_checks
from bakery.audit.elf import SharedObject
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import error
from bakery.audit.report import WheelReport, make_report
from bakery.audit.symbols import Symbols
from bakery.audit.wheel import Wheel, parse_name, read_wheel
from bakery.audit.worker import LimitExceeded, call
from bakery.core.errors import OutputError
from bakery.core.files import open_plain


def audit_wheel(path: Path, expected: ExpectedWheel | None = None) -> WheelReport:
    """Audit one wheel; without ``expected``, against its own file name only.

    A file that is not a wheel gets a report with errors. A file that cannot be opened raises OutputError.
    """
    try:
        wheel = read_wheel(path)
    except OSError as reason:
        raise OutputError(f"cannot read {path}: {reason.strerror or reason}") from reason
    return make_report(wheel, run_checks(wheel, expected or ExpectedWheel()))


def audit_in_worker(path: Path, expected: ExpectedWheel | None = None) -> WheelReport:
    """Do what `audit_wheel` does in a process with limits. A finding names the limit that was exceeded."""
    try:
        with open_plain(path) as file:
            size = file.seek(0, 2)
    except OSError as reason:
        raise OutputError(f"cannot read {path}: {reason.strerror or reason}") from reason
    try:
        return replace(call(_audit, path.absolute(), expected, size=size), path=path)
    except OutputError:
        raise
    except LimitExceeded as reason:
        hint = "no valid wheel needs this much; if yours does, please report it: this is a bug in bakery"
        finding = error("audit-limit", f"the audit was stopped: {reason.message}", hint=hint)
    except Exception as reason:
        text = f"the audit failed: {type(reason).__name__}: {reason}"[:2000]
        finding = error("audit-failed", text, hint="this is a bug in bakery")
    return make_report(Wheel((), path, "", parse_name(path.name), Archive(size=size)), [finding])


def _audit(path: Path, expected: ExpectedWheel | None) -> WheelReport:
    """Return a report without the symbols: some libraries have a hundred thousand, and only the checks need them."""
    report = audit_wheel(path, expected)
    binaries = (
        replace(binary, symbols=Symbols(cxx_abi=binary.symbols.cxx_abi)) if isinstance(binary, SharedObject) else binary
        for binary in report.binaries
    )
    return replace(report, binaries=tuple(binaries))
