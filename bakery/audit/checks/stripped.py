"""Does the wheel carry symbols and debug information that nobody who installs it needs?"""

from __future__ import annotations

from collections.abc import Iterator

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, info
from bakery.audit.wheel import Wheel

IDS = {
    "not-stripped": "a shared object has its symbol table or debug information",
}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every such object with what its debug sections take."""
    for found in wheel.objects:
        if found.debug_size:
            yield Finding(
                "not-stripped",
                Severity.ERROR if expected.stripped else Severity.INFO,
                f"has {found.debug_size / 1e6:.2f} MB of debug information in {found.size / 1e6:.2f} MB",
                found.path,
                "build without -g, link with -Wl,-s, or run strip",
            )
        elif not found.stripped:
            yield info("not-stripped", "has a symbol table", file=found.path, hint="link with -Wl,-s, or run strip")
