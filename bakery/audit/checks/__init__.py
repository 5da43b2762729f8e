"""The checks, one file each, found by scanning this folder.

A check is a module with two names: ``IDS``, its finding ids with what each means, and
``check(wheel, promise)``, which yields findings. A new check is one new file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import islice
from pkgutil import iter_modules
from typing import Protocol, cast

from bakery.audit.finding import Finding
from bakery.audit.promise import Promise
from bakery.audit.wheel import Wheel

_MOST_FINDINGS = 50


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
    """Yield the findings of all checks, each bounded: ten thousand bad files make one point."""
    for check in load_checks():
        found = check.check(wheel, promise)
        last = None
        for last in islice(found, _MOST_FINDINGS):
            yield last
        if last and (more := sum(1 for _ in found)):
            yield Finding(last.check, last.severity, f"and {more} more findings of this kind")
