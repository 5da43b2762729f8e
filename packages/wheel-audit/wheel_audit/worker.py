"""Reads untrusted files in another process with limits of time and memory.

A worker is a Python process that is used for many calls, since its start is slow. If it exceeds a limit, it is killed
with the tools that it started, and the next call gets a new one. Several threads may call at once: each has a worker.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar, cast

from wheel_audit.environment import clean_environment
from wheel_audit.limits import Limits

try:
    import resource
except ImportError:
    # Windows has only the limit of elapsed time.
    HAS_LIMITS = False
else:
    HAS_LIMITS = True

_T = TypeVar("_T")

_PROGRAM = """
import sys
sys.path.append(sys.argv[1])
from wheel_audit.worker import serve
serve()
"""
_ROOT = Path(__file__).resolve().parents[1]
_LARGEST_REUSED = 64 << 20
"""After larger files a worker is not used again: memory that they occupied would count for the next file."""


class LimitExceeded(Exception):
    """Reading a file exceeded a limit; ``message`` names it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def call(function: Callable[..., _T], *arguments: object, size: int) -> _T:
    """Call a picklable function in a worker and return its result, or raise its exception.

    The limits grow with ``size``, the bytes of the files that it reads. Raises LimitExceeded for too much time or
    memory, or if the process ended.
    """
    worker = _take()
    try:
        returned, value = worker.call(function, arguments, Limits.of(size))
    except BaseException:
        worker.kill()
        raise
    if worker.late.is_set() or size > _LARGEST_REUSED:
        worker.kill()
    else:
        with _lock:
            _idle.append(worker)
    if not returned:
        raise cast(Exception, value)
    return cast(_T, value)


class _Worker:
    def __init__(self) -> None:
        # -P: nothing in the working folder is imported.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(_ROOT)],
            env=clean_environment(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._calls = cast(IO[bytes], self._process.stdin)
        self._answers = cast(IO[bytes], self._process.stdout)
        self.late = threading.Event()

    def call(
        self, function: Callable[..., object], arguments: tuple[object, ...], limits: Limits
    ) -> tuple[bool, object]:
        """Return whether the function returned, and what it returned or raised."""
        timer = threading.Timer(limits.seconds, self._end_late)
        timer.daemon = True
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                _send(self._calls, pickle.dumps((function, arguments, limits)))
            kind, value = pickle.load(self._answers)
        except (EOFError, pickle.UnpicklingError):
            raise LimitExceeded(self._why(limits)) from None
        finally:
            timer.cancel()
            timer.join()
        if kind == "memory":
            raise LimitExceeded(_out_of_memory(limits))
        return kind == "returned", value

    def _end_late(self) -> None:
        self.late.set()
        self._signal()

    def _why(self, limits: Limits) -> str:
        """Return why the worker ended without an answer."""
        code = self._process.wait()
        if self.late.is_set():
            return f"it took more than {limits.seconds} seconds"
        if sys.platform != "win32" and code == -signal.SIGXCPU:
            return f"it took more than {limits.cpu} seconds of CPU time"
        return f"the process that read it ended with {code}; {_out_of_memory(limits)}, or it was killed"

    def kill(self) -> None:
        """Kill the worker and its children."""
        self._signal()
        self._process.wait()
        for pipe in (self._calls, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()

    def _signal(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)


_lock = threading.Lock()
_idle: list[_Worker] = []


def _take() -> _Worker:
    with _lock:
        return _idle.pop() if _idle else _Worker()


@atexit.register
def _end() -> None:
    while _idle:
        _idle.pop().kill()


def _out_of_memory(limits: Limits) -> str:
    return f"it took more than {limits.memory >> 20} MiB of memory"


def serve() -> None:
    """Run a worker: answer calls until the input ends."""
    # Output of libraries must not mix with the answers, and no tool may read the calls.
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    with contextlib.suppress(EOFError):
        while True:
            _send(answers, _answer(*pickle.load(calls)))


def _answer(function: Callable[..., object], arguments: tuple[object, ...], limits: Limits) -> bytes:
    try:
        with _limited(limits):
            value = function(*arguments)
        return pickle.dumps(("returned", value))
    except MemoryError:
        return pickle.dumps(("memory", None))
    except Exception as error:
        return pickle.dumps(("raised", error))


@contextlib.contextmanager
def _limited(limits: Limits) -> Iterator[None]:
    """Apply limits to this process and the tools that it starts."""
    if not HAS_LIMITS:
        yield
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    bounds = {
        resource.RLIMIT_AS: limits.memory,
        resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime) + limits.cpu + 1,
        resource.RLIMIT_CORE: 0,
    }
    before = {kind: resource.getrlimit(kind) for kind in bounds}
    try:
        for kind, value in bounds.items():
            with contextlib.suppress(OSError, ValueError):
                hard = before[kind][1]
                resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
        yield
    finally:
        for kind, values in before.items():
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(kind, values)


def _send(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(message)
    pipe.flush()
