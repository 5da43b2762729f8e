"""The checks of the audit, one file each; ``load_checks`` finds them.

A check is a module with ``IDS`` (finding id → meaning) and ``check(wheel, promise)``, which yields findings. It reads
no files: all facts are in ``wheel``. It imports the modules of ``audit`` and ``core``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import islice
from pkgutil import iter_modules
from typing import Protocol, cast

from bakery.audit.expectation import Promise
from bakery.audit.finding import Finding, error
from bakery.audit.wheel import Wheel

_MOST_FINDINGS = 50
_LONGEST = 2000
"""Characters of a message or a path that a finding shows."""


class Check(Protocol):
    """What every module of this folder offers."""

    IDS: Mapping[str, str]

    def check(self, wheel: Wheel, promise: Promise) -> Iterator[Finding]:
        """Yield what is to be said of ``wheel``."""
        ...


@cache
def load_checks() -> tuple[Check, ...]:
    """Return all checks, in the order of their file names."""
    names = sorted(module.name for module in iter_modules(__path__))
    return tuple(cast(Check, import_module(f"{__name__}.{name}")) for name in names)


def check_ids() -> dict[str, str]:
    """Return every finding id with what it means."""
    return {key: text for check in load_checks() for key, text in check.IDS.items()}


def run_checks(wheel: Wheel, promise: Promise) -> Iterator[Finding]:
    """Yield the findings of all checks, each bounded: ten thousand bad files make one point.

    A check that stumbles fails the wheel, and the others still judge it.
    """
    for check in load_checks():
        try:
            found = check.check(wheel, promise)
            last = None
            for last in islice(found, _MOST_FINDINGS):
                yield _cut(last)
            if last and (more := sum(1 for _ in found)):
                yield Finding(last.check, last.severity, f"and {more} more findings of this kind")
        except MemoryError:
            raise
        except Exception as reason:
            text = f"{type(reason).__name__}: {reason}"[:_LONGEST]
            hint = "this is a bug in bakery, and the wheel may be made to meet it"
            yield error("audit-failed", f"a check stumbled over it: {text}", hint=hint)


def _cut(finding: Finding) -> Finding:
    """Return a finding whose texts are no longer than a person reads."""
    if max(len(finding.message), len(finding.file or "")) <= _LONGEST:
        return finding
    texts = (
        text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…" for text in (finding.message, finding.file or "")
    )
    message, file = texts
    return replace(finding, message=message, file=file or None)
