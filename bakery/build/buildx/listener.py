"""Who watches a run: the interface of displays."""

from __future__ import annotations

from collections.abc import Sequence

from bakery.build.buildx.progress import Board, Event


class Listener:
    """Gets all events of a run, always in one thread. This one ignores them; displays override its methods."""

    def start(self, board: Board) -> None:
        """Begin; ``board`` has the state that later calls changed."""

    def line(self, raw: bytes, events: Sequence[Event], cell: str = "") -> None:
        """Take one line of the stream of a cell's bake, and its events."""

    def tick(self) -> None:
        """Update; called about ten times a second."""

    def finish(self) -> None:
        """End; always called, also after a failure."""
