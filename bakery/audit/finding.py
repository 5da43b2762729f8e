"""One finding of one check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Only an error keeps a wheel out of the output folder."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        check: the stable id (kebab-case).
        severity: ``skipped`` if the check could not run; the message says why.
        message: one sentence, lower case, no full stop.
        file: a path inside the wheel.
        hint: what to do next; if it is empty, `run_checks` takes it from the check's ``HINTS``.
    """

    check: str
    severity: Severity
    message: str
    file: str | None = None
    hint: str = ""


def error(check: str, message: str, file: str | None = None, hint: str = "") -> Finding:
    """Return a finding that fails the wheel."""
    return Finding(check, Severity.ERROR, message, file, hint)


def warning(check: str, message: str, file: str | None = None, hint: str = "") -> Finding:
    """Return a finding that a person should look at."""
    return Finding(check, Severity.WARNING, message, file, hint)


def info(check: str, message: str, file: str | None = None) -> Finding:
    """Return a finding that needs no action."""
    return Finding(check, Severity.INFO, message, file)


def error_if(condition: object) -> Severity:
    """Return ``error`` under a condition, else ``warning``."""
    return Severity.ERROR if condition else Severity.WARNING
