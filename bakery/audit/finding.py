"""One finding of one check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding weighs: only an error keeps a wheel out of the output folder."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        check: the stable id (kebab-case) of what was found.
        severity: ``skipped`` where the check could not run; the message says why.
        message: one sentence, lower case, no full stop.
        file: the path inside the wheel, if it is about one file.
        hint: what to do next; where it is empty, `run_checks` takes that of the check's ``HINTS``.
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
    """Return a finding that is only worth knowing."""
    return Finding(check, Severity.INFO, message, file)


def error_if(condition: object) -> Severity:
    """Return the severity of what is an error under a condition, and a warning otherwise."""
    return Severity.ERROR if condition else Severity.WARNING
