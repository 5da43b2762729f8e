"""Remembers which wheels kept which expected, so that an unchanged wheel is not looked into again.

A memory is named by a digest of the wheel's bytes and name, the promise, and the versions of bakery and of the tools
that it asks; it holds the warnings. Nothing that could be wrong about another wheel is kept, nothing of an audit that
a tool gave no verdict for, and deleting the folder is harmless.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bakery import __version__
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity
from bakery.audit.tools import versions
from bakery.core.errors import OutputError
from bakery.core.files import open_plain

MOST = 4096
"""Memories kept; beyond it the folder starts anew."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What an audit came to.

    Attributes:
        size: in bytes.
        faults: the findings that keep the wheel from being published; empty when it passed.
        warnings: what a person should look at, and what could not be looked into.
    """

    path: Path
    sha256: str
    size: int
    faults: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def audit(path: Path, expected: ExpectedWheel, folder: Path) -> AuditResult:
    """Audit a wheel against a expected, or recall that this was done.

    Args:
        folder: where memories are kept.

    Raises:
        OutputError: the wheel cannot be opened.
    """
    try:
        with open_plain(path) as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            size = stream.tell()
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror or error}") from error
    entry = folder / hashlib.sha256(repr((__version__, versions(), sha256, path.name, expected)).encode()).hexdigest()
    remembered = _recalled(entry)
    if remembered is not None:
        return AuditResult(path, sha256, size, (), remembered)
    from bakery.audit.auditor import audit_in_worker  # slow to import, and seldom needed: most wheels are known

    findings = audit_in_worker(path, expected).findings
    faults = _texts_of(findings, Severity.ERROR)
    skipped = tuple(f"not looked into: {text}" for text in _texts_of(findings, Severity.SKIPPED))
    warnings = (*_texts_of(findings, Severity.WARNING), *skipped)
    if not faults and not skipped:
        _remember(entry, warnings)
    return AuditResult(path, sha256, size, faults, warnings)


def _texts_of(findings: Iterable[Finding], severity: Severity) -> tuple[str, ...]:
    return tuple(
        finding.message + (f" ({finding.file})" if finding.file else "") + (f"; {finding.hint}" if finding.hint else "")
        for finding in findings
        if finding.severity is severity
    )


def _recalled(entry: Path) -> tuple[str, ...] | None:
    """Return the warnings of an audit that was passed; None where there is no memory that can be read."""
    try:
        warnings = json.loads(entry.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_whole = isinstance(warnings, list) and all(isinstance(item, str) for item in warnings)
    return tuple(warnings) if is_whole else None


def _remember(entry: Path, warnings: tuple[str, ...]) -> None:
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        old = list(entry.parent.iterdir())
        if len(old) >= MOST:
            for item in old:
                item.unlink(missing_ok=True)
        entry.write_text(json.dumps(warnings), encoding="utf-8")
