"""Is the file small enough for where it goes?"""

from __future__ import annotations

from collections.abc import Iterator

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, error
from bakery.audit.wheel import Wheel

IDS = {
    "size-limit": "the file is larger than the promise or the package index allows",
}
PYPI_LIMIT = 100 << 20
"""PyPI's default limit per file, in bytes."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield at most one finding for each limit."""
    size = wheel.archive.size
    if expected.max_size is not None and size > expected.max_size:
        yield error("size-limit", f"has {_mib(size)}, expected at most {_mib(expected.max_size)}")
    if size > PYPI_LIMIT:
        yield Finding(
            "size-limit",
            Severity.ERROR if expected.public_index else Severity.WARNING,
            f"has {_mib(size)}, PyPI takes {_mib(PYPI_LIMIT)}",
            hint="fewer architectures, -Xfatbin -compress-all, strip; or ask PyPI for a higher limit",
        )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"
