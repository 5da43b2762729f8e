"""Does the wheel carry libraries that must come from elsewhere: the driver, CUDA, the framework?"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from bakery.audit.binary import Binary
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity
from bakery.audit.tags import KNOWN_EXTERNAL
from bakery.audit.wheel import Wheel, is_grafted, original_soname

IDS = {
    "bundled-library": "the wheel carries a library that must stay outside",
}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every such library with its size.

    Grafted ones and those excluded by promise are errors. A known library in the project's own folder is
    only mentioned: it may be what the wheel is for, as in NVIDIA's and torch's.
    """
    for found in wheel.archive.binaries:
        excluded = _matches(found, expected.excludes)
        if excluded or _matches(found, KNOWN_EXTERNAL):
            wrong = excluded or is_grafted(found.path)
            yield Finding(
                "bundled-library",
                Severity.ERROR if wrong else Severity.INFO,
                f"carries {_names(found)[0]} ({found.size / 1e6:.1f} MB)",
                found.path,
                "exclude it from the repair and require the package that brings it" if wrong else "",
            )


def _names(found: Binary) -> tuple[str, ...]:
    return tuple(original_soname(name) for name in (found.soname, found.file_name) if name)


def _matches(found: Binary, globs: tuple[str, ...]) -> bool:
    # Names of Windows differ in their case and mean the same.
    return any(fnmatchcase(name, glob) or fnmatchcase(name.lower(), glob) for name in _names(found) for glob in globs)
