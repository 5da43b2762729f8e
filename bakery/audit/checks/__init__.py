"""The checks of the audit, one file for each subject; ``load_checks`` finds them.

A check is a module with ``IDS`` (finding id → meaning) and ``check(wheel, expected)``, which yields findings. ``HINTS``
(finding id → what to do next) is optional. A check reads no files: all facts are in ``wheel``. It imports the modules
of ``audit`` and ``core``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, error
from bakery.audit.wheel import Wheel

_MOST_FINDINGS = 50
"""Findings of one id and severity that are reported one by one: ten thousand bad files make one point."""
_LONGEST = 2000
"""Characters of a message or a path that a finding shows."""


class Check(Protocol):
    """What every module of this folder has."""

    IDS: Mapping[str, str]

    def check(self, wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
        """Yield the findings about ``wheel``."""
        ...


@cache
def load_checks() -> tuple[Check, ...]:
    """Return all checks, in the order of their file names."""
    names = sorted(module.name for module in iter_modules(__path__))
    return tuple(cast(Check, import_module(f"{__name__}.{name}")) for name in names)


def check_ids() -> dict[str, str]:
    """Return every finding id with what it means."""
    return {key: text for check in load_checks() for key, text in check.IDS.items()}


def run_checks(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield the findings of all checks. A check that fails with an exception fails the wheel; the others still run."""
    for check in load_checks():
        hints: Mapping[str, str] = getattr(check, "HINTS", {})
        counts: Counter[tuple[str, Severity]] = Counter()
        try:
            for finding in check.check(wheel, expected):
                kind = finding.check, finding.severity
                counts[kind] += 1
                if counts[kind] <= _MOST_FINDINGS:
                    yield _cut(replace(finding, hint=finding.hint or hints.get(finding.check, "")))
        except MemoryError:
            raise
        except Exception as reason:
            text = f"{type(reason).__name__}: {reason}"[:_LONGEST]
            hint = "this is a defect of bakery, which a wheel may be made to trigger"
            yield error("audit-failed", f"a check failed: {text}", hint=hint)
        for (name, severity), count in counts.items():
            if count > _MOST_FINDINGS:
                yield Finding(name, severity, f"and {count - _MOST_FINDINGS} more findings of this kind")


def _cut(finding: Finding) -> Finding:
    """Return a finding whose texts are no longer than a person reads."""
    message, file = (
        text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…" for text in (finding.message, finding.file or "")
    )
    return replace(finding, message=message, file=file or None)
