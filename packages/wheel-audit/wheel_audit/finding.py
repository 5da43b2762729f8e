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
    """What a check found: one sentence, lower case, without full stop, about the wheel or a file in it.

    ``check`` is a stable id (kebab-case). A ``skipped`` check could not run; the message says why. If ``hint``, what to
    do next, is empty, `run_checks` takes it from ``findings.toml``.
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
