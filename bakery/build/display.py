"""What a user sees of a run: nothing, plain lines, the raw stream, or a live table; `choose` picks.

Displays print on the console that they get, and never interpret container output as markup.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bakery.build.buildx.progress import Board, Event, Listener, StepFinished, StepStarted, TargetState, TextLine
from bakery.core.durations import duration
from bakery.core.errors import UsageError

REDRAWS_PER_S = 8
_NARROW = 100
"""Columns below which the output of steps is not shown."""

_LOOKS = {
    "waiting": ("·", "dim"),
    "running": ("●", "cyan"),
    "done": ("✓", "green"),
    "failed": ("✗", "red"),
    "ended": ("–", "yellow"),
}


class LiveDisplay(Listener):
    """Redraws a table of all targets at intervals: steps print faster than a screen can show."""

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
            refresh_per_second=REDRAWS_PER_S,
            auto_refresh=False,
            transient=False,
        )
        self._live.start()
        self._drawn_at = self._clock()

    def tick(self) -> None:
        """Redraw when it is time."""
        if self._live is not None and self._clock() - self._drawn_at >= 1 / REDRAWS_PER_S:
            self._drawn_at = self._clock()
            self._live.refresh()

    def finish(self) -> None:
        """Draw all rows of the last state, which stays."""
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
    """Return the states that fit on the screen, in order, and the number of others; running and failed come first."""
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


HEARTBEAT_S = 30.0
"""Seconds without a line after which a plain display shows what is running."""

MOMENT_S = 2.0
"""Seconds after which a running step gets a line."""

MAX_TITLE_CHARACTERS = 80


class RawDisplay(Listener):
    """Passes the JSON stream on for programs; the text of buildx is left out."""

    def __init__(self, console: Console) -> None:
        self._file = console.file

    def line(self, raw: bytes, events: Sequence[Event], cell: str = "") -> None:
        """Pass a JSON line on, with its cell: several are baked in parallel."""
        if not any(isinstance(event, TextLine) for event in events):
            text = raw.decode(errors="replace").strip()
            labelled = f'{{"cell": {json.dumps(cell)}, {text[1:]}' if cell and text.startswith('{"') else text
            self._file.write(labelled + "\n")
            self._file.flush()


class PlainDisplay(Listener):
    """Prints a line when a step ends, and in between while it runs."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._board = Board(())
        self._spoke_at = clock()
        self._width = 0
        self._begun: dict[StepStarted, float] = {}
        self._ends: dict[str, set[float]] = {}

    def start(self, board: Board) -> None:
        """Start; names get one width, so that steps are in one column."""
        self._board = board
        self._spoke_at = self._clock()
        names = list(board.targets)
        more = len(f" +{len(names) - 1}") if len(names) > 1 else 0
        self._width = min(40, max((len(name) for name in names), default=0) + more)

    def line(self, raw: bytes, events: Sequence[Event], cell: str = "") -> None:
        """Show the steps that ended; store those that started."""
        for event in events:
            match event:
                case StepStarted(digest=digest):
                    if not digest or digest not in self._ends:
                        self._begun[event] = self._clock()
                case StepFinished(targets, title):
                    self._forget(title, targets)
                    if not self._is_repeated(event):
                        self._say(targets, title, _end(event))

    def tick(self) -> None:
        """Show steps that run longer than `MOMENT_S`, and running ones if nothing was shown for `HEARTBEAT_S`."""
        now = self._clock()
        shown: set[str] = set()
        for event in [event for event, at in self._begun.items() if now - at >= MOMENT_S]:
            del self._begun[event]
            if not event.digest or event.digest not in shown:
                self._say(event.targets, event.title)
            shown.add(event.digest)
        if now - self._spoke_at < HEARTBEAT_S:
            return
        running = [state for state in self._board.targets.values() if state.finished_at is None and state.current]
        for state in running:
            self._say((state.name,), _title(state), f"still running, {duration(state.elapsed(now))}")
        if not running:
            self._say(("",), "waiting for the engine")

    def _is_repeated(self, event: StepFinished) -> bool:
        """Return whether this end was shown: parallel bakes report steps that they share once each."""
        if event.canceled:
            # Nothing needs it any more, or BuildKit found an equal step and continues with that.
            return True
        ends = self._ends.setdefault(event.digest, set())
        is_repeated = (
            bool(event.digest) and not event.error and (event.seconds in ends or (event.cached and bool(ends)))
        )
        ends.add(event.seconds)
        return is_repeated

    def _forget(self, title: str, targets: Sequence[str]) -> None:
        # Cells have steps of the same title; targets may have joined since the step began.
        for event in [event for event in self._begun if event.title == title and set(event.targets) & set(targets)]:
            del self._begun[event]

    def _say(self, targets: Sequence[str], title: str, end: str = "") -> None:
        self._spoke_at = self._clock()
        more = f" +{len(targets) - 1}" if len(targets) > 1 else ""
        short = title if len(title) <= MAX_TITLE_CHARACTERS else f"{title[: MAX_TITLE_CHARACTERS - 1].rstrip()}…"
        text = f"{targets[0] + more:<{self._width}}  {short}{'  ' if end else ''}{end}"
        # Lines of a log are not wrapped.
        self._console.print(Text(text), soft_wrap=True)


def _title(state: TargetState) -> str:
    return state.current.label.title if state.current else ""


def _end(event: StepFinished) -> str:
    if event.error:
        return f"FAILED  {duration(event.seconds)}"
    return "CACHED" if event.cached else duration(event.seconds)


def choose(mode: str, console: Console, environ: Mapping[str, str]) -> Listener:
    """Return the display for a mode; ``auto``: live on a terminal, plain elsewhere and in CI. Raises UsageError."""
    match mode:
        case "auto":
            live = console.is_terminal and not console.is_dumb_terminal and not environ.get("CI")
            return LiveDisplay(console) if live else PlainDisplay(console)
        case "tty":
            return LiveDisplay(console)
        case "plain":
            return PlainDisplay(console)
        case "rawjson":
            return RawDisplay(console)
        case "quiet":
            return Listener()
        case _:
            raise UsageError(f"unknown progress {mode!r}", hint="one of auto, tty, plain, rawjson, quiet")
