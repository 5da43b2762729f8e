"""One log file for each target, written as the build goes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from bakery.core.errors import OutputError
from bakery.runs.buildx.progress import Event, LogLines, StepFinished, StepStarted

OPEN = 64
"""Files that are open at once: a plan may have more targets than a process may open files."""


class LogFiles:
    """Writes ``<folder>/<target>.log``; a context manager that closes the files.

    The lines of each step follow a line ``# [compile 3/5] RUN make``, also if steps run in parallel.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: OrderedDict[str, TextIO] = OrderedDict()
        self._last: dict[str, str] = {}

    def __enter__(self) -> LogFiles:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def path(self, target: str) -> Path:
        """Return the log of a target."""
        return self.folder / f"{target}.log"

    def write(self, events: Iterable[Event]) -> None:
        """Write the lines of events. Raises OutputError if a log cannot be written (space, permissions)."""
        try:
            for event in events:
                self._write(event)
        except OSError as error:
            raise OutputError(f"cannot write the log: {error}", hint=f"free space for {self.folder}") from error

    def _write(self, event: Event) -> None:
        match event:
            case StepStarted(targets, title):
                self._lines(targets, title, ())
            case LogLines(targets, title, lines):
                self._lines(targets, title, lines)
            case StepFinished(targets, title, seconds, cached, error):
                end = error or ("CACHED" if cached else f"done in {seconds:.1f} s")
                self._lines(targets, title, (f"# {end}",))
            case _:
                return

    def _lines(self, targets: Iterable[str], title: str, lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        for target in targets:
            head = "" if self._last.get(target) == title else f"# {title}\n"
            self._last[target] = title
            self._file(target).write(head + text)

    def _file(self, target: str) -> TextIO:
        file = self._open.get(target)
        if file is None:
            if len(self._open) >= OPEN:
                self._open.popitem(last=False)[1].close()
            # Line buffered: the log is there when bakery is killed, and `tail -f` works.
            file = self.path(target).open("a", encoding="utf-8", errors="replace", buffering=1)
            self._open[target] = file
        self._open.move_to_end(target)
        return file
