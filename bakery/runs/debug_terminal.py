"""A program on a terminal of its own: what it prints before and after its shell is not shown, the shell has the user's terminal.

buildx's debugger prints the whole build, opens a shell in the container, and then has a prompt of its own. The shell says
where it begins and ends, with a mark that nothing else prints.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from wheel_audit.environment import CleanEnvironment

_LAST = 20_000
"""Bytes of what was not shown that are kept, for a message."""
_PROMPT = b"(buildx)"
_PROMPT_S = 10.0
"""Seconds within which the debugger has its prompt, and ends after it."""


def run_shell(argv: Sequence[str], cwd: Path, environment: CleanEnvironment, mark: str, banner: str) -> str | None:
    """Run a program; show its shell from the first ``mark`` to the second, after the banner. Linux and macOS only.

    Return None after a shell; if there was none, the last text that the program printed.
    """
    import pty
    import termios
    import tty

    parent, child = pty.openpty()
    terminal = sys.stdin.fileno()
    termios.tcsetwinsize(child, termios.tcgetwinsize(terminal))
    before = termios.tcgetattr(terminal)
    with subprocess.Popen(
        argv, cwd=cwd, env=environment, stdin=child, stdout=child, stderr=child, start_new_session=True
    ) as process:
        os.close(child)
        try:
            hidden, rest = _until(parent, mark.encode())
            if rest is None:
                return hidden.decode(errors="replace")
            tty.setraw(terminal)
            _show(banner.replace("\n", "\r\n").encode() + b"\r\n")
            _pass_on(parent, terminal, mark.encode(), rest)
            _leave(parent)
            process.wait(_PROMPT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
            if process.poll() is None:
                # docker's plugins are processes of their own, and may ignore SIGTERM.
                os.killpg(process.pid, signal.SIGKILL)
            os.close(parent)
    return None


def _read(descriptor: int, seconds: float | None = None) -> bytes:
    """Return what is there, or comes within a time; nothing at the end, where a terminal gives an error."""
    if not select.select([descriptor], [], [], seconds)[0]:
        return b""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


def _show(data: bytes) -> None:
    """Write what the shell printed: it is the user's own terminal in that container, as with ``docker run -it``."""
    view = memoryview(data)
    while view:
        view = view[os.write(sys.stdout.fileno(), view) :]


def _until(parent: int, mark: bytes) -> tuple[bytes, bytes | None]:
    """Return what comes before a mark, cut, and what was read behind it; None if the program ends before."""
    hidden = b""
    while data := _read(parent):
        before, found, rest = (hidden + data).partition(mark)
        if found:
            return before, rest
        hidden = before[-_LAST:]
    return hidden, None


def _pass_on(parent: int, terminal: int, mark: bytes, data: bytes) -> None:
    """Pass keys to the shell and its text to the terminal, until the mark or the end of either."""
    while True:
        before, found, _ = data.partition(mark)
        # The beginning of a mark waits for its rest.
        kept = 0 if found else next((size for size in range(len(mark) - 1, 0, -1) if before.endswith(mark[:size])), 0)
        _show(before[: len(before) - kept])
        if found:
            return
        ready = select.select([parent, terminal], [], [])[0]
        data = before[len(before) - kept :]
        if terminal in ready:
            keys = _read(terminal)
            if not keys:
                return
            os.write(parent, keys)
        if parent in ready:
            more = _read(parent)
            if not more:
                return
            data += more


def _leave(parent: int) -> None:
    """Leave the debugger, too, when its prompt is there."""
    limit, seen = time.monotonic() + _PROMPT_S, b""
    while _PROMPT not in seen and time.monotonic() < limit:
        seen += _read(parent, 0.2)
    os.write(parent, b"exit\r")
    while _read(parent, 2):
        pass
