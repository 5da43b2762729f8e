"""``shell``: the step's own command fails there as it failed in the bake, with the step's mounts and network."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import uuid
from pathlib import Path

import pytest
from command import bakery
from projects import SOURCE, extension

pytestmark = pytest.mark.engine

RECIPE = 'name = "tiny"\n[matrix]\npython = ["3.11"]\n'
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SHELL = "buildkitsandbox:/src# "
ERROR = "src/core.cpp:1:14: error: "


class Terminal:
    """A command on a terminal of its own, and what it printed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.end, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("4H", 31, 97, 0, 0))
        argv = [sys.executable, "-m", "bakery", *arguments]
        self.process = subprocess.Popen(argv, cwd=folder, stdin=child, stdout=child, stderr=child)
        os.close(child)
        self.raw, self.text = b"", ""

    def until(self, text: str, seconds: float = 120) -> str:
        """Return what is printed up to ``text``."""
        limit, start = time.monotonic() + seconds, len(self.text)
        while text not in self.text[start:]:
            assert time.monotonic() < limit, self.text
            if select.select([self.end], [], [], 1)[0]:
                self.raw += os.read(self.end, 65536)
                self.text = COLOURS.sub("", self.raw.decode(errors="replace")).replace("\r", "")
        return self.text[start:]

    def type(self, keys: str) -> None:
        """Type keys."""
        os.write(self.end, keys.encode())

    def leave(self) -> None:
        """Leave the shell, and with it the command."""
        self.type("exit\n")
        assert self.process.wait(30) == 0, self.text


@pytest.mark.proof
def test_the_steps_own_command_fails_alike(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", RECIPE, f"int answer = missing_thing;\n{SOURCE}// {uuid.uuid4()}\n")
    assert ERROR in bakery(folder, "wheel", code=7).log("wheel-cp311")
    terminal = Terminal(folder, "shell", "cp311")
    try:
        shown = terminal.until(SHELL)
        assert "ERROR" not in shown
        assert len(shown.splitlines()) <= 7, "what Bakery says, a banner of four lines, the prompt"
        terminal.type("stty size; ls -d /src/build; tail -n +3 /proc/net/dev | cut -d: -f1; echo en''d\n")
        state = terminal.until("\nend\n")
        assert "No such file" in state, "the step has not run"
        assert "eth" not in state
        assert "\n31 97\n" in state
        terminal.type("retry\n")
        assert "with-ccache" not in terminal.until(ERROR)
        terminal.until(SHELL)
        terminal.type("\x1b[A\x1b[A\x1b[A\n")
        assert "with-ccache" in terminal.until(ERROR)
        terminal.until(SHELL)
    finally:
        terminal.leave()


@pytest.mark.proof
def test_the_first_of_two_commands_of_a_stage(tmp_path: Path) -> None:
    recipe = f'{RECIPE}[test]\nimports = ["tiny.absent"]\ncommand = "true"\n'
    folder = extension(tmp_path / "project", recipe, SOURCE)
    assert "wheel-bakery shell cp311 --at tiny-test" in bakery(folder, "test", code=7).err
    terminal = Terminal(folder, "shell", "cp311")
    try:
        # The command has the wheel alone, not the project.
        assert "the state before command 2 of 3 of tiny-test" in terminal.until("buildkitsandbox:/# ")
        terminal.type("\x1b[A\n")
        assert "smoke.py" in terminal.until("No module named 'tiny.absent'")
    finally:
        terminal.leave()
