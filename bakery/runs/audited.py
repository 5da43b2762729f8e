"""A cache of passed audits, so that an unchanged wheel is not audited again.

The key of an entry is a digest of the wheel's bytes and name, the expectation, the files of this package, and the versions
of the external tools; its value is the warnings and the sizes of device code. Failed and incomplete audits are not stored. The folder can be deleted at any
time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import wheel_audit
from bakery.core.errors import reported
from bakery.core.inside import Inside
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.fatbin import sorted_archs
from wheel_audit.finding import Finding, Severity
from wheel_audit.plain_files import open_plain, sha256_of
from wheel_audit.readers import read_json
from wheel_audit.tools import versions

if TYPE_CHECKING:
    from wheel_audit.auditor import WheelReport

_LARGEST = 16 << 20

NOTE = "note: "
"""How a warning begins that needs no action."""

_NOTED = ("exclude-unused",)
"""What is no warning, and yet told after a run: it says that the recipe has no effect."""

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
    with reported(f"cannot read {path}"), open_plain(path, follow=True) as stream:
        sha256 = sha256_of(stream)
        size = stream.tell()
    entry = folder / hashlib.sha256(repr((_code(), versions(), sha256, path.name, expected)).encode()).hexdigest()
    cached = _load(entry)
    if cached is not None:
        return AuditResult(path, sha256, size, (), *cached)
    report = report_on(path, expected)
    findings = report.findings
    images = [image for item in report.device_objects for image in item.device_code.images]
    device = {
        arch: sum(image.size for image in images if image.arch == arch)
        for arch in sorted_archs(image.arch for image in images)
    }
    faults = _texts_of(findings, Severity.ERROR)
    skipped = tuple(f"not checked: {text}" for text in _texts_of(findings, Severity.SKIPPED))
    notes = (f"{NOTE}{text}" for text in _texts_of((f for f in findings if f.check in _NOTED), Severity.INFO))
    warnings = (*_texts_of(findings, Severity.WARNING), *skipped, *notes)
    if not faults and not skipped:
        _store(entry, warnings, device)
    return AuditResult(path, sha256, size, faults, warnings, device)


def report_on(path: Path, expected: ExpectedWheel | None = None) -> WheelReport:
    """Audit a wheel, without the cache. Raises OutputError if it cannot be opened."""
    from wheel_audit.auditor import audit_in_worker  # slow to import, and seldom needed: most wheels are in the cache

    with reported(f"cannot read {path}"):
        return audit_in_worker(path, expected)


@cache
def _code() -> str:
    """Return a digest of the audit's files: another check can find what the last one did not."""
    digest = hashlib.sha256()
    for path in sorted(Path(wheel_audit.__file__).parent.rglob("*")):
        if path.suffix in (".py", ".toml"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _texts_of(findings: Iterable[Finding], severity: Severity) -> tuple[str, ...]:
    return tuple(
        finding.message + (f" ({finding.file})" if finding.file else "") + (f"; {finding.hint}" if finding.hint else "")
        for finding in findings
        if finding.severity is severity
    )


def _load(entry: Path) -> tuple[tuple[str, ...], dict[str, int]] | None:
    """Return the warnings and the device code of a passed audit; None without a readable entry."""
    try:
        status = entry.parent.lstat()
        if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
            return None
        document = read_json(entry, _LARGEST)
        warnings, device = document["warnings"], document["device"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    is_valid = isinstance(warnings, list) and all(isinstance(item, str) for item in warnings)
    is_valid = is_valid and isinstance(device, dict) and all(isinstance(size, int) for size in device.values())
    return (tuple(warnings), device) if is_valid else None


def _store(entry: Path, warnings: tuple[str, ...], device: Mapping[str, int]) -> None:
    with contextlib.suppress(OSError):
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Whatever the umask is or was: an entry is believed.
        entry.parent.chmod(0o700)
        old = list(entry.parent.iterdir())
        if len(old) >= MOST:
            for item in old:
                item.unlink(missing_ok=True)
        Inside(entry.parent).write(entry.name, json.dumps({"warnings": warnings, "device": dict(device)}).encode())
