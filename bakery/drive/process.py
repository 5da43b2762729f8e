"""One child process in a group of its own: its lines as they come, and an end that leaves nothing behind."""

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

from bakery.errors import EngineError

PATIENCE_S = 20.0
"""How long a child may take to end after it was asked to, before it is killed."""

TICK_S = 0.1
"""Longest time between two calls of ``tick``."""

QUEUED = 10_000
"""Lines read ahead; beyond that the child waits, and memory stays bounded."""

_WATCH = """
read -r _
kill -s TERM -- "-$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 1; kill -s 0 -- "-$1" || exit 0; done
kill -s KILL -- "-$1"
"""
"""What `_survivor` runs; ``$1`` is the group."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(StrEnum):
    """Why a child was ended early."""

    NO = ""
    SIGNAL = "signal"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended.

    Attributes:
        code: its exit status, negative for a signal.
        stopped: why it was ended early, if it was.
        signal: the signal that this process got, 0 if none.
    """

    code: int
    stopped: Stopped
    signal: int = 0


@dataclass(slots=True)
class _Signals:
    """Signals that arrived, in order."""

    arrived: list[int] = field(default_factory=list)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        self.arrived.append(number)


@contextmanager
def _caught() -> Iterator[_Signals]:
    """Collect signals instead of dying of them; in threads other than the main one do nothing."""
    signals = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    # A signal that the caller ignores (nohup) stays ignored.
    caught = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, signals.handle)
    try:
        yield signals
    finally:
        for number in caught:
            signal.signal(number, before[number] or signal.SIG_DFL)


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    line: Callable[[bytes], None],
    tick: Callable[[], None],
    timeout_s: float | None = None,
) -> Ended:
    """Run a program to its end; its standard input is empty, its standard output is dropped.

    The first SIGINT, SIGTERM or SIGHUP, or the end of the time, asks the whole group to end and kills it after
    `PATIENCE_S`; a second signal kills it at once. Whatever happens, also an error in ``line`` or ``tick``,
    nothing of the group is left when this returns.

    Args:
        argv: the program and its arguments.
        cwd: the directory that it runs in.
        environment: all of its environment.
        line: given each line that it writes to its standard error, line end included.
        tick: called at least every `TICK_S` seconds.
        timeout_s: seconds that it may run, None for any.

    Raises:
        EngineError: the program cannot be started.
    """
    with _caught() as signals:
        try:
            child = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"cannot start {argv[0]}: {error}", hint="run `bakery doctor`") from error
        lines: queue.Queue[bytes | None] = queue.Queue(QUEUED)
        dropping = threading.Event()
        assert child.stderr is not None
        reader = threading.Thread(target=_read, args=(child.stderr, lines, dropping), daemon=True)
        reader.start()
        guard = _Guard(child.pid, signals, None if timeout_s is None else time.monotonic() + timeout_s)
        try:
            with _survivor(child.pid):
                _pump(lines, line, tick, guard)
                _linger(child, tick, guard)
        finally:
            # The pipe is read to its end even now: a reader that goes away kills the build half-way.
            dropping.set()
            if child.returncode is None:
                # Not waited for yet, so its number cannot be another's by now.
                _kill(child.pid)
            code = child.wait()
            reader.join(timeout=5.0)
        return Ended(code, guard.stopped, signals.arrived[0] if signals.arrived else 0)


@contextmanager
def _survivor(group: int) -> Iterator[None]:
    """End a group when this process is killed: buildx alone would build on until it next writes something.

    A shell waits for the end of a pipe that only this process holds open.
    """
    reading, writing = os.pipe()
    try:
        watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "bakery-watch", str(group)],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            watcher.kill()
            watcher.wait()
    finally:
        os.close(reading)
        os.close(writing)


def _linger(child: subprocess.Popen[bytes], tick: Callable[[], None], guard: _Guard) -> None:
    """Wait for a child that closed its output."""
    while True:
        try:
            child.wait(TICK_S)
            return
        except subprocess.TimeoutExpired:
            guard.check(time.monotonic())
            tick()


def _pump(
    lines: queue.Queue[bytes | None], line: Callable[[bytes], None], tick: Callable[[], None], guard: _Guard
) -> None:
    """Hand lines over until the child closes its end; look after signals and time in between."""
    ticked = time.monotonic()
    while True:
        with contextlib.suppress(queue.Empty):
            item = lines.get(timeout=TICK_S)
            if item is None:
                return
            line(item)
        now = time.monotonic()
        if now - ticked >= TICK_S:
            ticked = now
            guard.check(now)
            tick()


def _read(pipe: IO[bytes], lines: queue.Queue[bytes | None], dropping: threading.Event) -> None:
    """Read lines to the end of the pipe; nobody takes them any more once ``dropping`` is set."""
    with pipe:
        for item in pipe:
            _put(lines, item, dropping)
    _put(lines, None, dropping)


def _put(lines: queue.Queue[bytes | None], item: bytes | None, dropping: threading.Event) -> None:
    while not dropping.is_set():
        try:
            return lines.put(item, timeout=TICK_S)
        except queue.Full:
            continue


@dataclass(slots=True)
class _Guard:
    """Ends the group when a signal arrived or the time is over.

    Attributes:
        group: process group of the child.
        kill_at: when patience ends (local clock), None while the child may run.
    """

    group: int
    signals: _Signals
    deadline: float | None
    stopped: Stopped = Stopped.NO
    kill_at: float | None = None

    def check(self, now: float) -> None:
        if self.kill_at is None:
            if self.signals.arrived:
                self._stop(Stopped.SIGNAL, now)
            elif self.deadline is not None and now >= self.deadline:
                self._stop(Stopped.TIMEOUT, now)
        elif now >= self.kill_at or len(self.signals.arrived) > 1:
            _kill(self.group)

    def _stop(self, why: Stopped, now: float) -> None:
        self.stopped, self.kill_at = why, now + PATIENCE_S
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, signal.SIGTERM)


def _kill(group: int) -> None:
    """Kill what is left of a group; an empty group is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
