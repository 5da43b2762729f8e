"""The native step: compiled once, in the wheels of all Pythons."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from command import bakery
from native_project import project

pytestmark = pytest.mark.engine


def stamp(data: bytes) -> str:
    """Return what a build left in the library."""
    start = data.index(b"stamp ")
    return data[start : data.index(b"\0", start)].decode()


def test_compiled_once_for_all_pythons(tmp_path: Path) -> None:
    done = bakery(project(tmp_path / "project"), "full")
    wheels = {wheel.name.split("-")[2]: wheel for wheel in done.wheels}
    assert set(wheels) == {"cp311", "cp313"}
    libraries = set()
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as archive:
            libraries.add(archive.read("tiny/lib/libtiny.so"))
    (library,) = libraries
    for python in wheels:
        log = done.log(f"test-{python}")
        assert stamp(library) in log
        assert "loaded 1 of 1 shared objects" in log
    report = json.loads((done.runs[-1] / "report.json").read_text())
    assert {target["result"] for target in report["targets"]} == {"done"}


def test_a_command_that_leaves_nothing(tmp_path: Path) -> None:
    recipe = 'name = "tiny"\n[native]\ncommand = "true"\ninto = "src/tiny/lib"\n'
    done = bakery(project(tmp_path / "project", recipe), "wheel", code=7)
    assert "the native command put nothing into /native" in done.err
