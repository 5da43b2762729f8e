"""The checks of the audit, one file for each subject, and ``findings.toml`` with the meaning of each finding.

A check is a module with ``check(wheel, expected)``, which yields findings. It reads no files: all facts are in
``wheel``.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, Severity, error
from wheel_audit.wheel import Wheel

_MOST_FINDINGS = 50
"""Limit of findings of one id and severity that are reported one by one: ten thousand bad files are one problem."""
_LONGEST = 2000
"""Characters of a message or a path that a finding shows."""


@cache
def _load_checks() -> tuple[ModuleType, ...]:
    """Return all checks, in the order of their file names."""
    return tuple(
        import_module(f"{__name__}.{name}") for name in sorted(module.name for module in iter_modules(__path__))
    )


@cache
def _tables() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("findings.toml").read_text(encoding="utf-8"))


def check_ids() -> dict[str, str]:
    """Return every finding id with its meaning."""
    return {key: text for check in _load_checks() for key, text in _tables()[check.__name__.rpartition(".")[2]].items()}


def hint_of(check: str) -> str:
    """Return the usual hint for a finding id; empty if there is none."""
    return _tables()["hints"].get(check, "")


def run_checks(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield the findings of all checks. A check that raises an exception fails the wheel; the others still run."""
    for check in _load_checks():
        counts: Counter[tuple[str, Severity]] = Counter()
        try:
            finding: Finding
            for finding in check.check(wheel, expected):
                kind = finding.check, finding.severity
                counts[kind] += 1
                if counts[kind] <= _MOST_FINDINGS:
                    yield _cut(replace(finding, hint=finding.hint or hint_of(finding.check)))
        except MemoryError:
            raise
        except Exception as reason:
            text = f"{type(reason).__name__}: {reason}"[:_LONGEST]
            yield error("audit-failed", f"a check failed: {text}", hint="this is a bug in wheel-audit")
        for (name, severity), count in counts.items():
            if count > _MOST_FINDINGS:
                yield Finding(name, severity, f"and {count - _MOST_FINDINGS} more findings of this kind")


def _cut(finding: Finding) -> Finding:
    """Return a finding with shortened texts."""
    message, file = (
        text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…" for text in (finding.message, finding.file or "")
    )
    return replace(finding, message=message, file=file or None)
