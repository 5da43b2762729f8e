"""The live display: one row for each target, redrawn in place; the last state stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bakery.build.buildx.listener import Listener
from bakery.build.buildx.progress import Board, TargetState
from bakery.core.durations import duration

REDRAWS = 8
"""Redraws in a second."""

_NARROW = 100
"""Columns below which what a step prints is not shown beside it."""

_LOOKS = {
    "waiting": ("·", "dim"),
    "running": ("●", "cyan"),
    "done": ("✓", "green"),
    "failed": ("✗", "red"),
    "ended": ("–", "yellow"),
}


class LiveDisplay(Listener):
    """Redraws a table of all targets at intervals: a busy step prints faster than a screen can show."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._board = Board(())
        self._live: Live | None = None
        self._ended = False
        self._drawn_at = clock()

    def start(self, board: Board) -> None:
        """Begin to draw."""
        self._board = board
        self._ended = False
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=REDRAWS,
            auto_refresh=False,
            transient=False,
        )
        self._live.start()
        self._drawn_at = self._clock()

    def tick(self) -> None:
        """Redraw when it is time."""
        if self._live is not None and self._clock() - self._drawn_at >= 1 / REDRAWS:
            self._drawn_at = self._clock()
            self._live.refresh()

    def finish(self) -> None:
        """Draw the last state and leave it there, however many rows it has."""
        if self._live is not None:
            self._ended = True
            self._live.vertical_overflow = "visible"
            self._live.refresh()
            self._live.stop()
            self._live = None
            if not self._console.is_terminal:
                # rich ends the last line on terminals only.
                self._console.line()

    def _render(self) -> RenderableType:
        states = list(self._board.targets.values())
        room = len(states) if self._ended else max(3, self._console.size.height - 2)
        shown, hidden = _fit(states, room)
        table = self._table()
        for state in shown:
            table.add_row(*self._row(state))
        if hidden:
            table.add_row("", Text(f"… and {hidden} more", style="dim"))
        return table

    def _table(self) -> Table:
        table = Table(box=None, show_header=False, pad_edge=False, expand=True, padding=(0, 1))
        table.add_column(width=1)
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=36, min_width=12)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=3)
        table.add_column(no_wrap=True, justify="right", min_width=6)
        table.add_column(no_wrap=True, justify="right", min_width=12)
        if self._wide:
            table.add_column(no_wrap=True, overflow="ellipsis", ratio=2, style="dim")
        return table

    @property
    def _wide(self) -> bool:
        return self._console.width >= _NARROW

    def _row(self, state: TargetState) -> list[RenderableType]:
        look = self._look(state)
        mark, style = _LOOKS[look]
        title = "done" if look == "done" else state.current.label.title if state.current else "waiting"
        elapsed = duration(state.elapsed(self._clock())) if state.started_at is not None else ""
        cached = f"{state.cached}/{state.total} cached" if state.total else ""
        row = [Text(mark, style), Text(state.name, "bold"), Text(title), Text(elapsed), Text(cached, "dim")]
        return [*row, Text(state.last_line)] if self._wide else [*row]

    def _look(self, state: TargetState) -> str:
        if state.failure:
            return "failed"
        if state.finished_at is not None:
            return "done"
        if self._ended:
            return "done" if state.total and state.done == state.total else "ended"
        return "waiting" if state.started_at is None else "running"


def _fit(states: Sequence[TargetState], room: int) -> tuple[list[TargetState], int]:
    """Return the states that fit on the screen: what runs and what failed before the rest, in their order."""
    if len(states) <= room:
        return list(states), 0

    def rank(state: TargetState) -> int:
        if state.failure:
            return 0
        if state.finished_at is None and state.started_at is not None:
            return 1
        return 2 if state.started_at is None else 3

    chosen = {state.name for state in sorted(states, key=rank)[: room - 1]}
    return [state for state in states if state.name in chosen], len(states) - len(chosen)
