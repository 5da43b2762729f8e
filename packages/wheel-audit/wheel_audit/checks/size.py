"""Is the file small enough for the package index, and without debug information?"""

from __future__ import annotations

from collections.abc import Iterator

from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, Severity, error, error_if, info
from wheel_audit.wheel import Wheel

PYPI_LIMIT = 100 << 20
"""PyPI's default limit per file, in bytes (docs.pypi.org/project-management/storage-limits, and MAX_FILESIZE in
warehouse/constants.py of pypi/warehouse; read 2026-11-23)."""

PYPI_PROJECT_LIMIT = 10 << 30
"""PyPI's default limit for all files of a project, in bytes (the same sources; MAX_PROJECT_SIZE)."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield why the file is too large."""
    size = wheel.archive.size
    if expected.max_size is not None and size > expected.max_size:
        yield error("size-limit", f"has {_mib(size)}, expected at most {_mib(expected.max_size)}")
    elif expected.max_size is None and size > PYPI_LIMIT:
        text = f"has {_mib(size)}, PyPI accepts {_mib(PYPI_LIMIT)}"
        hint = "fewer architectures, -Xfatbin -compress-all, strip; or ask PyPI for a higher limit"
        yield Finding("size-limit", error_if(expected.public_index), text, hint=hint)
    for binary in wheel.objects:
        if binary.debug_size:
            severity = Severity.ERROR if expected.stripped else Severity.INFO
            text = f"has {binary.debug_size / 1e6:.2f} MB of debug information in {binary.size / 1e6:.2f} MB"
            yield Finding("not-stripped", severity, text, binary.path)
        elif not binary.stripped:
            yield info("not-stripped", "has a symbol table", binary.path)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"
