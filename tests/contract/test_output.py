"""What strangers write comes out as text, by the command itself and in a real shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from printed import is_text


def test_a_wrong_command_line_is_text(tmp_path: Path) -> None:
    wheel = "\x1b]0;owned\x07.whl"
    lines = (["audit", wheel], ["audit", "--\x1b[31m"], ["\x1b[2J"], ["reproduce", wheel], ["schema", "\x9b2J"])
    # One process imports Bakery for all of them.
    program = f"""
import os, sys
from bakery.cli.app import main
for words in {lines!r}:
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    else:
        sys.argv[1:] = words
        main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    codes = done.stdout.split()
    assert len(codes) == len(lines)
    assert set(codes) <= {"2", "10"}
    assert "Traceback" not in done.stderr
    assert is_text(done.stdout + done.stderr)


def test_the_next_command_of_init_is_one_that_can_be_copied(tmp_path: Path) -> None:
    folder = tmp_path / "it's $(touch ran) `touch ran`; touch ran"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\n[build-system]\nrequires = ["setuptools"]\n'
    )
    init = [sys.executable, "-m", "bakery", "init", "--yes", str(folder)]
    done = subprocess.run(init, cwd=tmp_path, capture_output=True, text=True, check=True)
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("next: ")]
    show = command.removeprefix("next: ").replace("wheel-bakery", "printf %s\\\\n", 1)
    words = subprocess.run(["sh", "-c", show], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert words.splitlines() == ["-C", str(folder), "wheel"]
    assert not list(tmp_path.rglob("ran"))
