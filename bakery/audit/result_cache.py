"""A cache of passed audits, so that an unchanged wheel is not audited again.

The key of an entry is a digest of the wheel's bytes and name, the expectation, and the versions of bakery and of the
external tools; its value is the warnings and the sizes of device code. Failed and incomplete audits are not stored. The folder can be deleted at any
time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bakery import __version__
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.fatbin import sorted_archs
from bakery.audit.finding import Finding, Severity
from bakery.audit.tools import versions
from bakery.core.errors import OutputError
from bakery.core.files import open_plain

MOST = 4096
"""Entries in the folder; beyond it, all are deleted."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of an audit: ``faults`` keep the wheel from being published; ``warnings`` include skipped checks.

    ``device``: architecture (``sm_90``, ``compute_90``) → bytes of its code in all files.
    """

    path: Path
    sha256: str
    size: int
    faults: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    device: Mapping[str, int] = field(default_factory=dict)


def audit(path: Path, expected: ExpectedWheel, folder: Path) -> AuditResult:
    """Audit a wheel against ``expected``, or return the cached result from ``folder``. Raises OutputError."""
    try:
        with open_plain(path) as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            size = stream.tell()
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror or error}") from error
    entry = folder / hashlib.sha256(repr((__version__, versions(), sha256, path.name, expected)).encode()).hexdigest()
    cached = _load(entry)
    if cached is not None:
        return AuditResult(path, sha256, size, (), *cached)
    from bakery.audit.auditor import audit_in_worker  # slow to import, and seldom needed: most wheels are in the cache

    report = audit_in_worker(path, expected)
    findings = report.findings
    images = [image for item in report.objects for image in item.device_code.images]
    device = {
        arch: sum(image.size for image in images if image.arch == arch)
        for arch in sorted_archs(image.arch for image in images)
    }
    faults = _texts_of(findings, Severity.ERROR)
    skipped = tuple(f"not checked: {text}" for text in _texts_of(findings, Severity.SKIPPED))
    warnings = (*_texts_of(findings, Severity.WARNING), *skipped)
    if not faults and not skipped:
        _store(entry, warnings, device)
    return AuditResult(path, sha256, size, faults, warnings, device)


def _texts_of(findings: Iterable[Finding], severity: Severity) -> tuple[str, ...]:
    return tuple(
        finding.message + (f" ({finding.file})" if finding.file else "") + (f"; {finding.hint}" if finding.hint else "")
        for finding in findings
        if finding.severity is severity
    )


def _load(entry: Path) -> tuple[tuple[str, ...], dict[str, int]] | None:
    """Return the warnings and the device code of a passed audit; None without a readable entry."""
    try:
        document = json.loads(entry.read_text(encoding="utf-8"))
        warnings, device = document["warnings"], document["device"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    is_valid = isinstance(warnings, list) and all(isinstance(item, str) for item in warnings)
    is_valid = is_valid and isinstance(device, dict) and all(isinstance(size, int) for size in device.values())
    return (tuple(warnings), device) if is_valid else None


def _store(entry: Path, warnings: tuple[str, ...], device: Mapping[str, int]) -> None:
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        old = list(entry.parent.iterdir())
        if len(old) >= MOST:
            for item in old:
                item.unlink(missing_ok=True)
        entry.write_text(json.dumps({"warnings": warnings, "device": dict(device)}), encoding="utf-8")
