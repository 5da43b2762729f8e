"""Signals that end a run: they are noted, and the run ends in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@dataclass(slots=True)
class Signals:
    """Signals that arrived, in order."""

    arrived: list[int] = field(default_factory=list)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal."""
        self.arrived.append(number)

    @property
    def name(self) -> str:
        """The name of the first one; empty for none."""
        return signal.Signals(self.arrived[0]).name if self.arrived else ""


@contextmanager
def caught() -> Iterator[Signals]:
    """Note signals instead of ending the process; in threads other than the main one do nothing."""
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    # A signal that the caller ignores (nohup) stays ignored.
    numbers = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in numbers:
        signal.signal(number, signals.handle)
    try:
        yield signals
    finally:
        for number in numbers:
            signal.signal(number, before[number] or signal.SIG_DFL)
