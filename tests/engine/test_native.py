"""The native step: compiled once, in the wheels of all Pythons."""

from __future__ import annotations

import json
import uuid
import zipfile
from pathlib import Path

import pytest
from command import bakery
from native_project import FILES, project

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


PART = """\
name = "@"
source = { path = ".", subdirectory = "@" }
[matrix]
python = ["3.11"]
[native]
command = '''
cmake -S /src/native -B /build -G Ninja -DCMAKE_INSTALL_PREFIX=/native
cmake --build /build
cmake --install /build
'''
into = "@/src/@/lib"
requirements = ["cmake>=3.26", "ninja"]
environment = { CXXFLAGS = "-DANSWER=42" }
[test]
imports = ["@"]
"""


@pytest.mark.proof
def test_two_distributions_of_one_tree_share_the_native_step(tmp_path: Path) -> None:
    """As IREE's compiler and runtime: their recipes have the same native step, so BuildKit runs it once."""
    folder = tmp_path / "project"
    names = ("tinya", "tinyb")
    for name in names:
        for path, text in FILES.items():
            inside = path.startswith("native/")
            file = folder / ("" if inside else name) / path.replace("src/tiny", f"src/{name}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text if inside else text.replace('"tiny"', f'"{name}"'))
        (folder / f"{name}.toml").write_text(PART.replace("@", name))
    (folder / "native" / "fresh.txt").write_text(str(uuid.uuid4()))
    done = bakery(folder, "wheel", *(word for name in names for word in ("-r", f"{name}.toml")))
    libraries = set()
    for wheel in done.wheels:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (item for item in archive.namelist() if item.endswith("libtiny.so"))
            libraries.add(archive.read(name))
    assert (len(done.wheels), len(libraries)) == (2, 1)
    ran = [title for number in range(len(done.runs)) for title in done.ran(number)]
    assert len([title for title in ran if title.startswith("[native ")]) == 1, "\n".join(ran)
