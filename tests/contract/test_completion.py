"""Completion in shells: as the printed scripts ask for it, in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = 'name = "demo"\n[variables]\nSPEED = "fast"\n[matrix]\npython = ["3.11", "3.13"]\n'


def run(folder: Path, *words: str, **variables: str) -> str:
    command = [sys.executable, "-m", "bakery", *words]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


def completed(folder: Path, line: str) -> list[str]:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    return run(folder, _WHEEL_BAKERY_COMPLETE="complete_bash", **words).split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("wheel-bakery whe", ["wheel"]),
        ("wheel-bakery wheel --onl", ["--only"]),
        ("wheel-bakery wheel --only cp", ["cp311", "cp313"]),
        ("wheel-bakery wheel --set SPE", ["SPEED=fast"]),
        ("wheel-bakery wheel --recipe de", ["demo"]),
        ("wheel-bakery wheel --recipe ujson --only cp313", ["cp313", "cp313-macosx_arm64", "cp313-win_amd64"]),
    ],
)
def test_words(tmp_path: Path, line: str, expected: list[str]) -> None:
    (tmp_path / "bakery.toml").write_text(RECIPE)
    assert completed(tmp_path, line) == expected


def test_a_broken_recipe_completes_nothing(tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text("name = 1")
    assert completed(tmp_path, "wheel-bakery wheel --only cp") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_valid(tmp_path: Path, shell: str) -> None:
    script = run(tmp_path, "completion", shell)
    assert "_WHEEL_BAKERY_COMPLETE" in script
    assert f"complete_{shell}" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)
