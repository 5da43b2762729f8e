"""Numbers as people read them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return seconds as ``0.3s``, ``12.3s``, ``4m05s`` or ``2h03m``."""
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"
