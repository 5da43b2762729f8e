"""Who watches a bake: the interface that displays implement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bakery.drive.progress import Event, Progress


class Listener(Protocol):
    """Told of a bake while it runs, always from the thread that called ``bake``."""

    def start(self, progress: Progress) -> None:
        """Begin; ``progress`` is the state that later calls changed."""

    def line(self, raw: bytes, events: Sequence[Event]) -> None:
        """Take one line of the stream and what happened by it."""

    def tick(self) -> None:
        """Do what is due; called about ten times a second, lines or not."""

    def finish(self) -> None:
        """End; always called, also after a failure."""
