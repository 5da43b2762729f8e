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

from bakery.core.durations import about, duration
from bakery.core.errors import UsageError
from bakery.runs.buildx.board import Board, CellProgress, Listener
from bakery.runs.buildx.progress import Event, LogLines, Step, StepFinished, TextLine
from wheel_audit.terminal import SafeConsole, write_command, write_json

REDRAWS_PER_S = 8
_NARROW = 100
"""Columns below which the output of steps is not shown."""

_BAR = 12
"""The columns of the bar of a compile."""

SETTLED_S = 1.0
"""Seconds that a cell runs before its time is estimated: by then, it is known what is cached."""

LONG_S = 10.0
"""Seconds after which the time of a step is shown, if it is not that of its cell."""

_LOOKS = {
    "waiting": ("·", "dim"),
    "running": ("●", "cyan"),
    "done": ("✓", "green"),
    "failed": ("✗", "red"),
    "ended": ("–", "yellow"),
}


class LiveDisplay(Listener):
    """Redraws a table of all cells at intervals: steps print faster than a screen can show."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._board = Board({})
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
        cells = self._board.cells
        room = len(cells) if self._ended else max(3, self._console.size.height - 3)
        shown, hidden = _fit(cells, room)
        table = self._table()
        first: dict[str, str] = {}
        for cell in cells:
            if step := cell.running:
                first.setdefault(step.digest, cell.name)
        for cell in shown:
            table.add_row(*self._row(cell, first))
        if hidden:
            table.add_row("", Text(f"… and {hidden} more", style="dim"))
        if len(cells) > 1 and not self._ended:
            done = sum(self._look(cell) == "done" for cell in cells)
            table.add_row("", Text(f"{done}/{len(cells)} cells"), "", "", self._total())
        return table

    def _total(self) -> Text:
        """Return how long the run still takes; empty if nobody knows."""
        left = self._board.seconds_left(self._clock())
        return Text(f"~{about(left)} left" if left >= 1 else "", "dim")

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

    def _row(self, cell: CellProgress, first: Mapping[str, str]) -> list[RenderableType]:
        """Return the fields of a row; ``first``: the digest of a running step → the first cell that needs it."""
        look = self._look(cell)
        mark, style = _LOOKS[look]
        elapsed = duration(cell.elapsed(self._clock())) if cell.started_at is not None else ""
        row = [Text(mark, style), Text(cell.name, "bold"), self._doing(cell, look, first), Text(elapsed)]
        row.append(Text(self._rest(cell, look), "dim"))
        return [*row, Text(cell.last_line)] if self._wide else [*row]

    def _doing(self, cell: CellProgress, look: str, first: Mapping[str, str]) -> Text:
        if look == "done":
            return Text("cached" if cell.is_cached else "done")
        if look == "failed" and cell.failure:
            return Text(cell.failure.work)
        step = cell.last if look == "ended" else cell.running
        if step is None:
            return Text("waiting" if cell.started_at is None else "waiting for the engine")
        if first.get(step.digest, cell.name) != cell.name:
            return Text(f"{step.work}: waits for {first[step.digest]}")
        age = self._clock() - step.seen_at if step.seen_at is not None and look == "running" else 0.0
        since = f" {duration(age)}" if age >= LONG_S and cell.elapsed(self._clock()) - age >= 1 else ""
        counter = step.counter
        if counter and counter[1]:
            filled = min(_BAR, _BAR * counter[0] // counter[1])
            # Two characters, because there may be no colors.
            return Text.assemble(
                _work(step), " ", ("━" * filled, "cyan"), ("─" * (_BAR - filled), "dim"), (since, "dim")
            )
        return Text.assemble(step.work, (since, "dim"))

    def _rest(self, cell: CellProgress, look: str) -> str:
        """Return how long a cell will still run, or how many of its steps were cached."""
        now = self._clock()
        left = cell.seconds_left(now) if look == "running" and cell.elapsed(now) >= SETTLED_S else 0.0
        if left >= 1:
            return f"~{about(left)} left"
        return f"{cell.cached}/{len(cell.steps)} cached" if cell.steps else ""

    def _look(self, cell: CellProgress) -> str:
        if cell.failure:
            return "failed"
        if cell.finished_at is not None:
            return "done"
        if self._ended:
            return "ended"
        return "waiting" if cell.started_at is None else "running"


def _fit(cells: Sequence[CellProgress], room: int) -> tuple[list[CellProgress], int]:
    """Return the cells that fit on the screen, in order, and the number of others; running and failed come first."""
    if len(cells) <= room:
        return list(cells), 0

    def rank(cell: CellProgress) -> int:
        if cell.failure:
            return 0
        if cell.finished_at is None and cell.started_at is not None:
            return 1
        return 2 if cell.started_at is None else 3

    chosen = {cell.name for cell in sorted(cells, key=rank)[: room - 1]}
    return [cell for cell in cells if cell.name in chosen], len(cells) - len(chosen)


HEARTBEAT_S = 30.0
"""Seconds without a line after which a plain display shows what is running."""

SHORTEST_S = 2.0
"""Steps of fewer seconds have no line in a plain display."""

SAME_S = 0.001
"""Seconds by which the times of a step differ at most that parallel bakes share: the engine tells each of them apart."""

SHORTEST_ESTIMATE_S = 30.0
"""Cells that take less time have no estimate in a plain display."""

MOST_RUNNING = 8
"""Lines about running steps at a time."""


class RawDisplay(Listener):
    """Passes the JSON stream on for programs; the text of buildx is left out."""

    def __init__(self, console: Console) -> None:
        self._file = console.file

    def line(self, raw: bytes, events: Sequence[Event], cell: str = "") -> None:
        """Pass a JSON line on, with its cell: several are baked in parallel."""
        if not any(isinstance(event, TextLine) for event in events):
            text = raw.decode(errors="replace").strip()
            labelled = f'{{"cell": {json.dumps(cell)}, {text[1:]}' if cell and text.startswith('{"') else text
            write_json(self._file, labelled + "\n")


class PlainDisplay(Listener):
    """Prints a line for each step that took two seconds or more, and for each result.

    Args:
        folds: GitHub shows the lines folded.
        streams: it prints all that the steps print, too.
    """

    def __init__(
        self,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
        *,
        folds: bool = False,
        streams: bool = False,
    ) -> None:
        self._console = console
        self._clock = clock
        self._folds = folds
        self._streams = streams
        self._streamed: dict[str, tuple[str, str]] = {}
        self._board = Board({})
        self._spoke_at = clock()
        self._width = 0
        self._ends: dict[str, set[float]] = {}
        self._exported: set[str] = set()
        self._estimated: set[str] = set()

    def start(self, board: Board) -> None:
        """Start; names get one width, so that steps are in one column."""
        self._board = board
        self._spoke_at = self._clock()
        names = list(board.targets)
        self._width = min(40, max((len(name) for name in names), default=0))
        if self._folds:
            write_command(self._console.file, "group", f"steps of {len(names)} targets")

    def line(self, raw: bytes, events: Sequence[Event], cell: str = "") -> None:
        """Show the steps and the targets that ended."""
        for event in events:
            if isinstance(event, LogLines) and self._streams:
                self._stream(event, cell)
            if isinstance(event, StepFinished) and not self._is_repeated(event):
                if event.error:
                    self._say(self._board.cell_of(event.targets[0]), event.work, f"FAILED  {duration(event.seconds)}")
                elif not event.cached and event.seconds >= SHORTEST_S:
                    self._say(self._board.cell_of(event.targets[0]), event.work, duration(event.seconds))
        self._say_results()

    def tick(self) -> None:
        """Show how long a cell takes, and what runs if nothing was shown for `HEARTBEAT_S`."""
        now = self._clock()
        self._say_results()
        for cell in self._board.cells:
            self._estimate(cell, now)
        if now - self._spoke_at < HEARTBEAT_S:
            return
        running: dict[str, tuple[Step, str]] = {}
        for cell in self._board.cells:
            if cell.finished_at is None and (step := cell.running):
                running.setdefault(step.digest, (step, cell.name))
        for step, name in list(running.values())[:MOST_RUNNING]:
            self._say(name, _work(step), f"running for {duration(now - (step.seen_at or now))}")
        if len(running) > MOST_RUNNING:
            self._say("", f"… and {len(running) - MOST_RUNNING} more")
        if not running:
            self._say("", "waiting for the engine")

    def _stream(self, event: LogLines, cell: str) -> None:
        """Print what a step printed, once: parallel bakes and several targets share steps."""
        place = (cell, event.targets[0])
        if self._streamed.setdefault(event.digest, place) == place:
            for text in event.lines:
                self._say(self._board.cell_of(event.targets[0]), text)

    def _say_results(self) -> None:
        for state in self._board.targets.values():
            if state.exported and state.name not in self._exported:
                self._exported.add(state.name)
                self._say(state.name, "cached" if state.is_cached else "done")

    def _estimate(self, cell: CellProgress, now: float) -> None:
        """Say once how long a cell takes, as soon as one of its commands runs."""
        step = cell.running if cell.times and cell.name not in self._estimated else None
        if not step or not step.is_command or now - (step.seen_at or now) < SETTLED_S:
            return
        self._estimated.add(cell.name)
        if (left := cell.seconds_left(now)) >= SHORTEST_ESTIMATE_S:
            self._say(cell.name, f"about {about(left)}, as last time")

    def finish(self) -> None:
        """Show the last results, and end the group of lines."""
        self._say_results()
        if self._folds:
            write_command(self._console.file, "endgroup")

    def _is_repeated(self, event: StepFinished) -> bool:
        """Return whether this end was shown: parallel bakes report steps that they share once each."""
        if event.canceled:
            # Nothing needs it any more, or BuildKit found an equal step and continues with that.
            return True
        ends = self._ends.setdefault(event.digest, set())
        is_known = any(abs(event.seconds - seconds) < SAME_S for seconds in ends)
        is_repeated = bool(event.digest) and not event.error and is_known
        ends.add(event.seconds)
        return is_repeated

    def _say(self, name: str, work: str, end: str = "") -> None:
        """Print a line about a target, or about a cell: most steps serve the wheel and its test."""
        self._spoke_at = self._clock()
        text = f"{name:<{self._width}}  {work}{'  ' if end else ''}{end}"
        # Lines of a log are not wrapped.
        self._console.print(Text(text), soft_wrap=True)


def _work(step: Step) -> str:
    """Return what a step does, and how far its build tool is: ``compile 13/48``."""
    counter = step.counter
    return f"{step.work} {counter[0]}/{counter[1]}" if counter else step.work


def choose(mode: str, console: SafeConsole, environ: Mapping[str, str]) -> Listener:
    """Return the display for a mode; ``auto``: live on a terminal, plain elsewhere and in CI. Raises UsageError."""
    folds = environ.get("GITHUB_ACTIONS") == "true"
    match mode:
        case "auto":
            live = console.is_live and not environ.get("CI")
            return LiveDisplay(console) if live else PlainDisplay(console, folds=folds)
        case "tty":
            return LiveDisplay(console)
        case "plain" | "verbose":
            return PlainDisplay(console, folds=folds, streams=mode == "verbose")
        case "rawjson":
            return RawDisplay(console)
        case "quiet":
            return Listener()
        case _:
            raise UsageError(f"unknown progress {mode!r}", hint="one of auto, tty, plain, verbose, rawjson, quiet")
