"""Compares the GPUs of the first file that nvcc compiled with the recipe's, hours before the audit can."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from bakery.resolve.device_promises import DevicePromise
from bakery.runs.buildx.board import Board, Listener
from bakery.runs.buildx.progress import Event, LogLines

_COMPILED = re.compile(r"bakery: nvcc compiled (.+) for ((?:sm_\w+ ?)+)")
"""A line of ``slot.py``."""


class DeviceWatch(Listener):
    """Passes all events on, and says once for each cell how a file's GPUs differ from those of the recipe.

    A file may rightly be for fewer GPUs than the wheel, so nothing is stopped.

    Args:
        shown: what gets all events.
        promises: cell → the device code that its wheel must have.
        say: prints a line.
    """

    def __init__(self, shown: Listener, promises: Mapping[str, DevicePromise], say: Callable[[str], None]) -> None:
        self._shown = shown
        self._promises = dict(promises)
        self._say = say
        self._board = Board({})

    def start(self, board: Board) -> None:
        """Start; the board knows the cells of targets."""
        self._board = board
        self._shown.start(board)

    def line(self, raw: bytes, events: Sequence[Event], cell: str = "") -> None:
        """Pass a line on, and compare what it tells."""
        self._shown.line(raw, events, cell)
        for event in (event for event in events if isinstance(event, LogLines)):
            for text in event.lines:
                if match := _COMPILED.fullmatch(text):
                    for name in dict.fromkeys(map(self._board.cell_of, event.targets)):
                        self._compare(name, match[1], set(match[2].split()))

    def _compare(self, cell: str, file: str, gpus: set[str]) -> None:
        promise = self._promises.pop(cell, None)
        wanted = {code for code in promise.archs if code.startswith("sm_")} if promise else set()
        # The audit takes sm_90a for sm_90, too.
        gpus = {code.rstrip("af") if code.rstrip("af") in wanted else code for code in gpus}
        lacks, more = (" ".join(sorted(codes)) for codes in (wanted - gpus, gpus - wanted))
        told = [f"not for {lacks}"] * bool(lacks) + [f"also for {more}"] * bool(more)
        if wanted and told:
            self._say(
                f"{cell}: nvcc compiled {file} {' and '.join(told)}, unlike the recipe's list of GPUs. "
                "If that holds for the whole wheel, the audit will refuse it: does the build read the list?"
            )

    def tick(self) -> None:
        """Pass it on."""
        self._shown.tick()

    def finish(self) -> None:
        """Pass it on."""
        self._shown.finish()
