"""Spans of time as people write and read them."""

from __future__ import annotations

import re

from bakery.core.errors import UsageError

_WRITTEN = re.compile(r"(?=\d)(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,8}(?:\.\d{1,3})?)s)?\Z", re.ASCII)
_UNITS = (86400, 3600, 60, 1)


def duration(seconds: float) -> str:
    """Return seconds as ``0.3s``, ``12.3s``, ``4m05s`` or ``2h03m``."""
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


def about(seconds: float) -> str:
    """Return seconds roughly, as an estimate: ``5 s``, ``90 s``, ``4 min`` or ``1.5 h``."""
    if seconds < 92.5:
        return f"{max(5, round(seconds / 5) * 5)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def seconds_of(text: str, what: str) -> float:
    """Return the seconds of ``90m``, ``8h``, ``1h30m``, ``2d`` or ``45.5s``.

    Raises UsageError, with the option ``what`` in the message, if the text is malformed or zero.
    """
    match = _WRITTEN.match(text.strip())
    seconds = sum(float(part or 0) * unit for part, unit in zip(match.groups(), _UNITS, strict=True)) if match else 0.0
    if not seconds:
        raise UsageError(f"{what}: {text!r} is not a span of time", hint="write 45s, 90m, 8h or 1h30m")
    return seconds
