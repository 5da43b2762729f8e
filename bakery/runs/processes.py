"""Child processes, each in a group of its own, and the signals that end a run; no process is left behind."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import IO

from bakery.core.child import kill_group
from bakery.core.environment import for_stranger
from bakery.core.errors import EngineError
from bakery.core.file_locks import halted_by
from wheel_audit.environment import CleanEnvironment

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@dataclass(slots=True)
class Signals:
    """Signals that arrived, in order."""

    arrived: list[int] = field(default_factory=list)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Record a signal."""
        self.arrived.append(number)

    @property
    def name(self) -> str:
        """The name of the first signal; empty for none."""
        return signal.Signals(self.arrived[0]).name if self.arrived else ""


@contextmanager
def caught() -> Iterator[Signals]:
    """Record signals instead of ending the process; does nothing in other threads than the main one."""
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
        with halted_by(lambda: signals.name):
            yield signals
    finally:
        for number in numbers:
            signal.signal(number, before[number] or signal.SIG_DFL)


KILL_DELAY_S = 20.0
TICK_S = 0.1
"""The longest time of `Children.turn` if nothing happens, in seconds."""

MAX_QUEUED_LINES = 100
"""Lines that were read and not handled yet. One line of buildx holds all that a step printed meanwhile: 10,000 took 500 MB."""

_WATCH = """
read -r _
kill -s TERM -- "-$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 1; kill -s 0 -- "-$1" || exit 0; done
kill -s KILL -- "-$1"
"""
"""The script of a watcher; ``$1`` is the group."""


class Stopped(StrEnum):
    """Why a child was ended early."""

    NO = ""
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    STILL = "still"
    UNWANTED = "unwanted"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its exit status, negative for a signal, and why it was ended early."""

    code: int
    stopped: Stopped = Stopped.NO


Line = Callable[[bytes], None]


@dataclass(slots=True, eq=False)
class Child:
    """A running program.

    Attributes:
        line: receives each line of its standard error, with the line end.
        deadline: local clock when its time is over; None for no limit.
        kill_at: local clock when it is killed; None before it was asked to end.
        closed: it closed its standard error.
    """

    process: subprocess.Popen[bytes]
    line: Line
    deadline: float | None
    watcher: _Watcher
    reader: threading.Thread
    stopped: Stopped = Stopped.NO
    kill_at: float | None = None
    closed: bool = False

    def stop(self, why: Stopped, now: float) -> None:
        """Ask its group to end; what is left after `KILL_DELAY_S` is killed."""
        if self.kill_at is None:
            self.stopped, self.kill_at = why, now + KILL_DELAY_S
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGTERM)


class Children:
    """Runs programs in parallel; lines and ends are handled in the thread that calls `turn`.

    The first SIGINT, SIGTERM or SIGHUP asks all groups to end and kills them after `KILL_DELAY_S`; a second signal kills
    at once. No process of any group is left when the context ends.
    """

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._lines: queue.Queue[tuple[Child, bytes | None]] = queue.Queue(MAX_QUEUED_LINES)
        self._dropping = threading.Event()
        self._running: list[Child] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        # The pipes are read to their ends: a closed pipe would kill the build.
        self._dropping.set()
        for child in self._running:
            if child.process.returncode is None:
                # Not waited for yet, so its number cannot be another's by now.
                kill_group(child.process.pid)
        for child in list(self._running):
            self._end(child)

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: CleanEnvironment,
        line: Line,
        timeout_s: float | None = None,
    ) -> Child:
        """Start a program without standard input and output.

        ``line`` receives each line of its standard error, with the line end. Raises EngineError if it cannot be
        started.
        """
        try:
            process = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"cannot start {argv[0]}: {error}", hint="run `wheel-bakery doctor`") from error
        assert process.stderr is not None
        pipe = process.stderr
        try:
            watcher = _Watcher(process.pid)
        except OSError as error:
            kill_group(process.pid)
            process.wait()
            raise EngineError(
                f"cannot start another process: {error}", hint="end processes that you do not need"
            ) from error
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        reader = threading.Thread(target=lambda: self._read(pipe, child), daemon=True)
        child = Child(process, line, deadline, watcher, reader)
        self._running.append(child)
        reader.start()
        return child

    def turn(self) -> list[tuple[Child, Ended]]:
        """Handle lines, waiting a little if there are none; return the children that ended."""
        end = time.monotonic() + (TICK_S / 10 if any(child.closed for child in self._running) else TICK_S)
        with contextlib.suppress(queue.Empty):
            while True:
                child, item = self._lines.get(timeout=max(0.0, end - time.monotonic()))
                if item is None:
                    child.closed = True
                    break
                child.line(item)
                if time.monotonic() >= end:
                    break
        now = time.monotonic()
        for child in self._running:
            self._guard(child, now)
        over = [child for child in self._running if child.closed and child.process.poll() is not None]
        return [(child, self._end(child)) for child in over]

    def _guard(self, child: Child, now: float) -> None:
        if child.kill_at is None:
            if self._signals.arrived:
                child.stop(Stopped.SIGNAL, now)
            elif child.deadline is not None and now >= child.deadline:
                child.stop(Stopped.TIMEOUT, now)
        elif now >= child.kill_at or len(self._signals.arrived) > 1:
            kill_group(child.process.pid)

    def _end(self, child: Child) -> Ended:
        code = child.process.wait()
        child.reader.join(timeout=5.0)
        child.watcher.end()
        self._running.remove(child)
        return Ended(code, child.stopped)

    def _read(self, pipe: IO[bytes], child: Child) -> None:
        """Read lines to the end of the pipe."""
        with pipe:
            for item in pipe:
                self._put(child, item)
        self._put(child, None)

    def _put(self, child: Child, item: bytes | None) -> None:
        while not self._dropping.is_set():
            try:
                return self._lines.put((child, item), timeout=TICK_S)
            except queue.Full:
                continue


class _Watcher:
    """Ends a group when this process is killed: buildx alone continues until it next writes something.

    A shell waits for the end of a pipe that only this process has open.
    """

    def __init__(self, group: int) -> None:
        reading, self._writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "bakery-watch", str(group)],
                env=for_stranger(),
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)

    def end(self) -> None:
        """End the watcher."""
        self._process.kill()
        self._process.wait()
        os.close(self._writing)
