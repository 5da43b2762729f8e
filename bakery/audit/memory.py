"""Remembers which wheels kept which promise, so that an unchanged wheel is not looked into again.

A memory is the name of an empty file: a digest of the wheel's bytes and name, the promise, and the versions
of bakery and of the tools that it asks. Nothing that could be wrong about another wheel is kept, and deleting the folder is harmless.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path

from bakery import __version__
from bakery.audit.finding import Severity
from bakery.audit.promise import Promise
from bakery.audit.tools import versions

MOST = 4096
"""Memories kept; beyond it the folder starts anew."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an audit came to.

    Attributes:
        size: in bytes.
        faults: the findings that keep the wheel from being published; empty when it passed.
    """

    path: Path
    sha256: str
    size: int
    faults: tuple[str, ...]


def audit(path: Path, promise: Promise, folder: Path) -> Verdict:
    """Audit a wheel against a promise, or recall that this was done.

    Args:
        folder: where memories are kept.

    Raises:
        OutputError: the wheel cannot be opened.
    """
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    size = path.stat().st_size
    memory = folder / hashlib.sha256(repr((__version__, versions(), sha256, path.name, promise)).encode()).hexdigest()
    if memory.exists():
        return Verdict(path, sha256, size, ())
    from bakery.audit.auditor import audit_wheel  # slow to import, and seldom needed: most wheels are known

    report = audit_wheel(path, promise)
    faults = tuple(
        finding.message + (f" ({finding.file})" if finding.file else "") + (f"; {finding.hint}" if finding.hint else "")
        for finding in report.findings
        if finding.severity is Severity.ERROR
    )
    if not faults:
        _remember(memory)
    return Verdict(path, sha256, size, faults)


def _remember(memory: Path) -> None:
    with contextlib.suppress(OSError):
        memory.parent.mkdir(parents=True, exist_ok=True)
        old = list(memory.parent.iterdir())
        if len(old) >= MOST:
            for item in old:
                item.unlink(missing_ok=True)
        memory.touch()
