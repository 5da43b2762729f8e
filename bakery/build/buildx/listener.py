"""Who watches a run: the interface that displays implement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bakery.build.buildx.progress import Board, Event


class Listener(Protocol):
    """Told of all bakes of a run while they go on, always from one thread."""

    def start(self, board: Board) -> None:
        """Begin; ``board`` is the state that later calls changed."""

    def line(self, raw: bytes, events: Sequence[Event], cell: str = "") -> None:
        """Take one line of the stream of a cell's bake, and what happened by it."""

    def tick(self) -> None:
        """Do what is due; called about ten times a second, lines or not."""

    def finish(self) -> None:
        """End; always called, also after a failure."""
