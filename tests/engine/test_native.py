"""The native step: compiled once, in the wheels of all Pythons."""

from __future__ import annotations

import json
import uuid
import zipfile
from pathlib import Path

import pytest
from command import bakery
from projects import REQUIRES

pytestmark = pytest.mark.engine

RECIPE = """\
name = "tiny"
[matrix]
python = ["3.11", "3.9", "3.13"]
[native]
command = '''
cmake -S native -B /build -G Ninja -DCMAKE_INSTALL_PREFIX=/native
cmake --build /build
cmake --install /build
'''
into = "src/tiny/lib"
requirements = ["cmake>=3.26", "ninja"]
environment = { CXXFLAGS = "-DANSWER=42" }
[test]
imports = ["tiny"]
command = "python -c 'import tiny; assert tiny.answer() == 42; print(tiny.stamp())'"
"""

FILES = {
    "native/CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.26)
project(tiny LANGUAGES CXX)
# Another number in each build: it tells whether two wheels hold the same one.
file(READ /proc/sys/kernel/random/uuid stamp)
string(STRIP "${stamp}" stamp)
add_library(tiny SHARED tiny.cpp)
target_compile_definitions(tiny PRIVATE "STAMP=\\"${stamp}\\"")
install(TARGETS tiny LIBRARY DESTINATION .)
""",
    "native/tiny.cpp": """\
#include <cstdlib>

extern "C" int answer() { return std::abs(-ANSWER); }
extern "C" const char *stamp() { return std::getenv("NONE") ? "" : "stamp " STAMP; }
""",
    "src/tiny/__init__.py": """\
import ctypes
import os

_library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", "libtiny.so"))
_library.stamp.restype = ctypes.c_char_p
answer = _library.answer


def stamp():
    return _library.stamp().decode()
""",
    "pyproject.toml": f"""\
[build-system]
requires = {REQUIRES}
build-backend = "setuptools.build_meta"
[project]
name = "tiny"
version = "1.0"
""",
    "setup.py": """\
from setuptools import Distribution, setup


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(packages=["tiny"], package_dir={"": "src"}, package_data={"tiny": ["lib/*.so"]}, distclass=Binary)
""",
}


def project(folder: Path, recipe: str = RECIPE) -> Path:
    """Write the project; no step of it is in any cache."""
    fresh = {"native/fresh.txt": str(uuid.uuid4()), "bakery.toml": recipe}
    for name, text in {**FILES, **fresh}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def stamp(data: bytes) -> str:
    """Return what a build left in the library."""
    start = data.index(b"stamp ")
    return data[start : data.index(b"\0", start)].decode()


def test_compiled_once_for_all_pythons(tmp_path: Path) -> None:
    done = bakery(project(tmp_path / "project"), "full")
    wheels = {wheel.name.split("-")[2]: wheel for wheel in done.wheels}
    assert set(wheels) == {"cp39", "cp311", "cp313"}
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
