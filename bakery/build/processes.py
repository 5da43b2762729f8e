"""Child processes, each in a group of its own, and the signals that end a run; no process is left behind."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import IO

from bakery.core.errors import EngineError

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


PATIENCE_S = 20.0
"""How long a child may take to end after it was asked to, before it is killed."""

TICK_S = 0.1
"""Longest time that `Children.turn` takes while nothing happens."""

QUEUED = 10_000
"""Lines read ahead; beyond that the children wait, and memory stays bounded."""

_WATCH = """
read -r _
kill -s TERM -- "-$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 1; kill -s 0 -- "-$1" || exit 0; done
kill -s KILL -- "-$1"
"""
"""What a watcher runs; ``$1`` is the group."""


class Stopped(StrEnum):
    """Why a child was ended early."""

    NO = ""
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    STILL = "still"
    UNWANTED = "unwanted"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended.

    Attributes:
        code: its exit status, negative for a signal.
        stopped: why it was ended early, if it was.
    """

    code: int
    stopped: Stopped = Stopped.NO


Line = Callable[[bytes], None]


@dataclass(slots=True, eq=False)
class Child:
    """A running program.

    Attributes:
        line: given each line that it writes to its standard error, line end included.
        deadline: local clock when its time is over, None for never.
        kill_at: local clock when patience ends, None while it may run.
        closed: it closed its output.
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
        """Ask the whole group to end; what is left of it is killed after `PATIENCE_S`."""
        if self.kill_at is None:
            self.stopped, self.kill_at = why, now + PATIENCE_S
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGTERM)


class Children:
    """Runs programs at once; all that is told of them is told in the thread that calls `turn`.

    The first SIGINT, SIGTERM or SIGHUP asks all groups to end and kills them after `PATIENCE_S`; a second signal kills
    at once. However the context is left, nothing of any group is left behind.
    """

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._lines: queue.Queue[tuple[Child, bytes | None]] = queue.Queue(QUEUED)
        self._dropping = threading.Event()
        self._running: list[Child] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        # The pipes are read to their ends even now: a reader that goes away kills the build half-way.
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
        environment: Mapping[str, str],
        line: Line,
        timeout_s: float | None = None,
    ) -> Child:
        """Start a program; its standard input is empty, its standard output is dropped.

        Args:
            environment: all of its environment.
            line: given each line that it writes to its standard error, line end included.
            timeout_s: seconds that it may run, None for any.

        Raises:
            EngineError: it cannot be started.
        """
        try:
            process = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=dict(environment),
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
            raise EngineError(f"cannot start another process: {error}", hint="end some that you need not") from error
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        reader = threading.Thread(target=lambda: self._read(pipe, child), daemon=True)
        child = Child(process, line, deadline, watcher, reader)
        self._running.append(child)
        reader.start()
        return child

    def turn(self) -> list[tuple[Child, Ended]]:
        """Hand over the lines that are there, wait for some if there are none, and return who has ended."""
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
        return [(child, self._end(child)) for child in list(self._running) if _is_over(child)]

    def stop(self, why: Stopped) -> None:
        """Ask all to end."""
        now = time.monotonic()
        for child in self._running:
            child.stop(why, now)

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
        """Read lines to the end of the pipe; nobody takes them any more once all is over."""
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


def _is_over(child: Child) -> bool:
    return child.closed and child.process.poll() is not None


class _Watcher:
    """Ends a group when this process is killed: buildx alone would build on until it next writes something.

    A shell waits for the end of a pipe that only this process holds open.
    """

    def __init__(self, group: int) -> None:
        reading, self._writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "bakery-watch", str(group)],
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
        """Watch no longer."""
        self._process.kill()
        self._process.wait()
        os.close(self._writing)


def kill_group(group: int) -> None:
    """Kill what is left of a group; an empty group is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
