"""The environment that a step makes has pip with its bytecode: no start of pip compiles it again."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bakery.toolchains.programs import make_venv

CHECKED_HASH = 0b11
"""PEP 552: bytecode that names the hash of its source, which is compared."""


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let neither the tools nor the base have a pip to copy: Python's own wheel is unpacked."""
    monkeypatch.setattr(make_venv, "copy_pip", lambda source, target: False)
    if not make_venv.bundled_wheel():
        pytest.skip("this Python brings no pip that is new enough")


def made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an environment; return its package pip."""
    monkeypatch.setattr(sys, "argv", ["make_venv.py", str(folder)])
    make_venv.main()
    return Path(make_venv.site(str(folder)), "pip")


def bytecode(file: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(file)))


@pytest.mark.usefixtures("bare")
def test_all_of_pip_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [*made(tmp_path / "venv", monkeypatch).rglob("*.py")]
    assert len(files) > 100
    assert [file for file in files if not bytecode(file).is_file()] == []


def test_bytecode_is_the_same_in_every_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for seconds in (10**9, 2 * 10**9):
        folder = tmp_path / str(seconds)
        (folder / "pip").mkdir(parents=True)
        file = folder / "pip" / "__init__.py"
        file.write_text("a = 1\n")
        os.utime(file, (seconds, seconds))
        monkeypatch.chdir(folder)
        make_venv.compile_pip("")
        found.append(bytecode(file).read_bytes())
    assert found[0] == found[1]
    assert found[0][4] == CHECKED_HASH


@pytest.mark.usefixtures("bare")
def test_another_pip_is_not_taken_for_the_compiled_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = made(tmp_path / "venv", monkeypatch)
    file = pip / "__init__.py"
    before = file.stat()
    file.write_text(file.read_text().replace('__version__ = "2', '__version__ = "9'))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    command = [str(tmp_path / "venv/bin/python"), "-I", "-m", "pip", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("pip 9")


def test_a_copy_brings_its_bytecode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    for name, text in {"pip/__init__.py": "", "pip-25.0.dist-info/METADATA": ""}.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    make_venv.compile_pip(str(source))
    assert make_venv.copy_pip(str(source), str(tmp_path / "target"))

    def fail(*_: object, **__: object) -> None:
        pytest.fail("what is compiled is not compiled again")

    monkeypatch.setattr("compileall.compile_dir", fail)
    make_venv.compile_pip(str(tmp_path / "target"))
