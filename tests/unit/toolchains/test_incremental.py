"""The program ``incremental.py``: when the build folder of the last build is used again, and what its build sees."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from bakery.toolchains import programs

LONG_AGO = 1_000_000_000_000_000_000
"""A time of files in ns, in 2001."""

BUILD = 'mkdir -p "$1" && echo built >> "$1/log" && touch "$1/CMakeCache.txt" && ! grep -q wrong "$2/one.c"'
"""Appends a line to a file in the build folder. It fails if the source is wrong."""


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("incremental", Path(programs.__file__).parent / "incremental.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Builds:
    """One cell, built again and again: like a container, each build gets a fresh copy of the source with other times."""

    def __init__(self, program: ModuleType, folder: Path) -> None:
        self.program = program
        self.files, self.source, self.build = folder / "files", folder / "source", folder / "build"
        self.root, self.store = folder / "root", folder / "store"
        for path in (self.files / "sub", self.root, self.store):
            path.mkdir(parents=True)
        for name in ("one.c", "sub/two.h", "CMakeLists.txt"):
            (self.files / name).write_text(name)
        (self.files / "link").symlink_to("one.c")
        (self.root / "gcc").write_text("12")

    def run(self, *more: str, name: str = "3.11") -> int:
        """Build; return how often the build folder was used, 1 for a new one."""
        shutil.rmtree(self.source, ignore_errors=True)
        shutil.rmtree(self.build, ignore_errors=True)
        shutil.copytree(self.files, self.source, symlinks=True)
        for path in self.source.rglob("*"):
            if path.is_file():
                os.utime(path, ns=(LONG_AGO, LONG_AGO))
        words = [name, str(self.build), ".c,.h", "sh", "-c", BUILD, "sh", str(self.build), str(self.source), *more]
        status = self.program.main(words, str(self.store), str(self.source), str(self.root))
        assert status in (0, 1)
        return 0 if status else len((self.build / "log").read_text().splitlines())

    def times(self) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in self.source.rglob("*") if path.is_file()}


@pytest.fixture
def builds(program: ModuleType, tmp_path: Path) -> Builds:
    return Builds(program, tmp_path)


def test_only_changed_files_are_new(builds: Builds, capsys: pytest.CaptureFixture[str]) -> None:
    assert builds.run() == 1
    assert "builds everything: there is no build folder of an earlier run" in capsys.readouterr().out
    (builds.files / "one.c").write_text("changed")
    before = time.time_ns()
    assert builds.run() == 2
    assert "1 of 5 files changed" in capsys.readouterr().out
    first = builds.times()
    assert first["one.c"] >= before
    assert first["two.h"] == first["CMakeLists.txt"] == LONG_AGO
    # A file that changed before has the time of that build, although each copy of the source is older.
    assert builds.run() == 3
    assert builds.times() == first
    # The content of before is a change, too: the objects are those of the other one.
    (builds.files / "one.c").write_text("one.c")
    assert builds.run() == 4
    assert builds.times()["one.c"] > first["one.c"]


def _forward(builds: Builds) -> None:
    (path,) = builds.store.glob("*/state.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "written": time.time() + 3600}))


CHANGES: dict[str, tuple[Callable[[Builds], object], str]] = {
    "new file": (lambda builds: (builds.files / "three.h").write_text(""), "three.h is new"),
    "no file": (lambda builds: (builds.files / "sub" / "two.h").unlink(), "sub/two.h is gone"),
    "other name": (lambda builds: (builds.files / "sub" / "two.h").rename(builds.files / "a.h"), "a.h is new"),
    "new folder": (lambda builds: (builds.files / "empty").mkdir(), "empty is new"),
    "build file": (lambda builds: (builds.files / "CMakeLists.txt").write_text("x"), "CMakeLists.txt changed"),
    "mode": (lambda builds: (builds.files / "one.c").chmod(0o755), "one.c changed"),
    "link": (
        lambda builds: ((builds.files / "link").unlink(), (builds.files / "link").symlink_to("sub")),
        "link changed",
    ),
    "image": (lambda builds: (builds.root / "gcc").write_text("13.1"), "the image, the environment or the command"),
    "image by time": (
        lambda builds: os.utime(builds.root / "gcc", ns=(LONG_AGO, LONG_AGO)),
        "the image, the environment or the command",
    ),
    "clock": (_forward, "the clock went back"),
    "damaged": (
        lambda builds: [path.write_text("{") for path in builds.store.glob("*/state.json")],
        "there is no build folder",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_other_change_builds_everything(builds: Builds, change: str, capsys: pytest.CaptureFixture[str]) -> None:
    apply, reason = CHANGES[change]
    assert (builds.run(), builds.run()) == (1, 2)
    apply(builds)
    capsys.readouterr()
    assert builds.run() == 1
    assert f"builds everything: {reason}" in capsys.readouterr().out


def test_environment_command_and_cell(builds: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (builds.run(), builds.run()) == (1, 2)
    monkeypatch.setenv("CFLAGS", "-O0")
    assert (builds.run(), builds.run()) == (1, 2)
    # BuildKit follows each build with another one.
    monkeypatch.setenv("TRACEPARENT", "00-1")
    assert builds.run() == 3
    assert builds.run("--option") == 1
    assert builds.run("--option", name="3.12") == 1
    assert builds.run("--option") == 2


def test_a_failed_build_changes_nothing(builds: Builds) -> None:
    assert (builds.run(), builds.run()) == (1, 2)
    (builds.files / "one.c").write_text("wrong")
    assert builds.run() == 0
    (builds.files / "one.c").write_text("right")
    assert builds.run() == 3


def test_what_is_kept(builds: Builds) -> None:
    builds.run()
    (kept,) = builds.store.glob("*/0")
    assert [path.name for path in kept.iterdir()] == ["log"]
    assert not list(builds.store.glob("*.new"))
    # A build was killed while it replaced what it kept.
    (kept.parent / "state.json").unlink()
    (kept.parent.parent / f"{kept.parent.name}.new").mkdir()
    assert (builds.run(), builds.run()) == (1, 2)


def test_a_folder_that_a_file_marks(program: ModuleType, tmp_path: Path) -> None:
    target = tmp_path / "rust" / "target"
    target.mkdir(parents=True)
    (target / ".rustc_info.json").write_text("{}")
    assert program.build_folders(".rustc_info.json", str(tmp_path)) == [str(target)]
    assert program.build_folders(str(tmp_path / "none"), str(tmp_path)) == []
