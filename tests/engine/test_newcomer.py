"""The path of a newcomer: install, then everything that a tutorial says, typed into a terminal that is recorded.

The recording is ``newcomer.cast`` (asciinema, version 2) in pytest's folder of the test: ``asciinema play newcomer.cast``.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path

import pytest
from pages import ROOT

pytestmark = pytest.mark.engine

BLOCK = re.compile(r'(?ms)^```(\w+)(?: title="([^"]+)")?\n(.*?)^```')
COLOURS = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
ROWS, COLUMNS, LIMIT_S = 40, 110, 300
PROMPT = "demo> "
SHELL = re.compile(r"/src# $")
VARIES = re.compile(r"\d+(?:\.\d+)? ?(?:s|min|kB|MB)\b|[0-9a-f]{12,}|\s+")
"""Times, sizes, digests and the widths of columns."""


class Recorder:
    """A shell on a terminal: types commands as a person does, and records what is seen."""

    def __init__(self, folder: Path, environment: Mapping[str, str], cast: Path) -> None:
        self.end, child = pty.openpty()
        ioctl(child, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
        words = ["bash", "--noprofile", "--norc", "-i"]
        self.process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=child, stdout=child, stderr=child, start_new_session=True
        )
        os.close(child)
        self.cast, self.began, self.text = cast.open("w", encoding="utf-8"), time.monotonic(), ""
        self.cast.write(json.dumps({"version": 2, "width": COLUMNS, "height": ROWS}) + "\n")

    def run(self, command: str, end: str | re.Pattern[str] = PROMPT) -> str:
        """Type a command; return what is printed until the next prompt."""
        self.text = ""
        os.write(self.end, f"{command}\n".encode())
        return self.until(end)

    def until(self, end: str | re.Pattern[str]) -> str:
        """Return what is printed up to a prompt."""
        limit = time.monotonic() + LIMIT_S
        while not (re.search(end, self.text) if isinstance(end, re.Pattern) else self.text.endswith(end)):
            assert time.monotonic() < limit, self.text[-4000:]
            if select.select([self.end], [], [], 1)[0]:
                seen = os.read(self.end, 65536).decode(errors="replace")
                self.cast.write(json.dumps([round(time.monotonic() - self.began, 3), "o", seen]) + "\n")
                self.text = COLOURS.sub("", self.text + seen).replace("\r", "")
        return self.text

    def close(self) -> None:
        """End the shell."""
        os.write(self.end, b"exit\n")
        self.process.wait(30)
        self.cast.close()
        os.close(self.end)


def plain(text: str) -> str:
    """Return text without what varies between runs."""
    return VARIES.sub("", text)


@pytest.mark.parametrize(
    "page",
    [
        "first-wheel",
        pytest.param("first-ci", marks=pytest.mark.proof),
        pytest.param("first-cuda-wheel", marks=pytest.mark.proof),
    ],
)
@pytest.mark.proof
def test_a_tutorial_from_the_installation_on(page: str, tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        tmp_path / "index",
    ]
    subprocess.run([*pip, ROOT / "packages" / "wheel-audit", ROOT], check=True)
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1.0"\n')
    environment = {
        **{
            name: value
            for name, value in engine_environment.items()
            if name not in ("CI", "BAKERY_PROGRESS", "COLUMNS")
        },
        **{"TERM": "xterm-256color", "PS1": PROMPT, "PROMPT_COMMAND": "", "HISTFILE": "", "LC_ALL": "C.UTF-8"},
        **{"PIP_FIND_LINKS": str(tmp_path / "index"), "XDG_STATE_HOME": str(tmp_path / "state")},
        "PYTHON": sys.executable,
    }
    terminal = Recorder(folder, environment, tmp_path / "newcomer.cast")
    try:
        terminal.until(PROMPT)
        terminal.run("$PYTHON -m venv ../env && . ../env/bin/activate; PS1='demo> '")
        terminal.run("python -m pip install --quiet --no-compile --disable-pip-version-check wheel-bakery")
        printed = ""
        for language, title, text in BLOCK.findall(
            (ROOT / "docs" / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
        ):
            if title:
                (folder / title).parent.mkdir(exist_ok=True)
                (folder / title).write_text(text)
            elif language == "sh":
                printed = "".join(map(terminal.run, text.splitlines()))
            elif language == "console":
                command, *typed = (line[2:] for line in text.splitlines() if line[:2] in ("$ ", "# "))
                printed = terminal.run(command, SHELL)
                printed += "".join(terminal.run(word, PROMPT if word == "exit" else SHELL) for word in typed)
                assert all(plain(line) in plain(printed) for line in text.splitlines() if line[:2] not in ("$ ", "# "))
            else:
                missing = [line for line in text.splitlines() if plain(line) not in plain(printed)]
                assert not missing, f"{missing}\n{printed[-6000:]}"
    finally:
        terminal.close()
    first, *events = (json.loads(line) for line in (tmp_path / "newcomer.cast").read_text().splitlines())
    assert first["version"] == 2
    assert len(events) > 10
