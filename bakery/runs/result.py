"""The result of a target."""

from __future__ import annotations

from enum import StrEnum


class Result(StrEnum):
    """The result of a target."""

    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"
    KEPT = "kept"
    """An earlier run finished it, and its inputs did not change."""
