"""One remark of one check."""

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
    """What a check has to say.

    Attributes:
        check: the stable id (kebab-case) of what was found.
        severity: ``skipped`` where the check could not run; the message says why.
        message: one sentence, lower case, no full stop.
        file: the path inside the wheel, if it is about one file.
        hint: what to do next; may be empty.
    """

    check: str
    severity: Severity
    message: str
    file: str | None = None
    hint: str = ""


def error(check: str, message: str, *, file: str | None = None, hint: str = "") -> Finding:
    """Return a finding that fails the wheel."""
    return Finding(check, Severity.ERROR, message, file, hint)


def warning(check: str, message: str, *, file: str | None = None, hint: str = "") -> Finding:
    """Return a finding that a person should look at."""
    return Finding(check, Severity.WARNING, message, file, hint)


def unanswered(check: str, reason: str, *, binding: bool) -> Finding:
    """Return a finding about a tool that came to no verdict.

    Args:
        binding: the promise needs the verdict, so that the wheel fails without it.
    """
    if not binding:
        return Finding(check, Severity.SKIPPED, reason)
    return error(check, reason, hint="the promise needs its verdict: bake again, what is built stays in the cache")


def info(check: str, message: str, *, file: str | None = None, hint: str = "") -> Finding:
    """Return a finding that is only worth knowing."""
    return Finding(check, Severity.INFO, message, file, hint)
