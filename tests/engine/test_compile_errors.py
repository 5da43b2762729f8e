"""Compile errors of each tool, in two cells: the tool's own message is on the screen, in the last 25 lines."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command import bakery

pytestmark = [pytest.mark.engine, pytest.mark.proof]

LINES = 25

_EXTENSION = "from setuptools import Extension, setup\nsetup(ext_modules=[Extension('demo._core', ['src/core.cpp'])])\n"
_CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(demo LANGUAGES CXX)
{}
install(TARGETS core DESTINATION demo)
"""
_SOURCE = "int answer() { return missing_thing; }\n"
_NVCC = """\
import os, subprocess
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

class Build(build_ext):
    def build_extension(self, ext):
        subprocess.run([os.environ["CUDA_HOME"] + "/bin/nvcc", "-c", *ext.sources, "-o", "/tmp/core.o"], check=True)

setup(ext_modules=[Extension("demo._core", ["src/core.cu"])], cmdclass={"build_ext": Build})
"""


@dataclass(frozen=True)
class Broken:
    """A project that does not compile, and the line of its tool that says why."""

    message: str
    files: dict[str, str]
    requires: str = '["setuptools>=77"]'
    backend: str = "setuptools.build_meta"
    recipe: str = "[builder]\n"
    environment: dict[str, str] = field(default_factory=dict)


PROJECTS = {
    "gcc": Broken(
        "src/core.cpp:1:23: error: ‘missing_thing’ was not declared in this scope",
        {"setup.py": _EXTENSION, "src/core.cpp": _SOURCE},
    ),
    "clang": Broken(
        "src/core.cpp:1:23: error: use of undeclared identifier 'missing_thing'",
        {"setup.py": _EXTENSION, "src/core.cpp": _SOURCE},
        recipe='[builder]\nsystem-packages = ["clang"]\n',
        environment={"CC": "clang", "CXX": "clang++"},
    ),
    "nvcc": Broken(
        'src/core.cu(1): error: identifier "missing_thing" is undefined',
        {"setup.py": _NVCC, "src/core.cu": _SOURCE},
        recipe='[variables]\nCUDA_VERSION = "13.0.3"\n[builder]\ntoolkit = "cuda"\n',
    ),
    "cmake": Broken(
        "CMake Error at CMakeLists.txt:3 (find_package):",
        {"CMakeLists.txt": _CMAKE.format("find_package(MissingThing REQUIRED)")},
        '["scikit-build-core"]',
        "scikit_build_core.build",
    ),
    "ninja": Broken(
        "/src/src/core.cpp:1:23: error: ‘missing_thing’ was not declared in this scope",
        {"CMakeLists.txt": _CMAKE.format("add_library(core MODULE src/core.cpp)"), "src/core.cpp": _SOURCE},
        '["scikit-build-core"]',
        "scikit_build_core.build",
    ),
    "setuptools": Broken(
        "error: unknown file type '.zz' (from 'src/core.zz')", {"setup.py": _EXTENSION.replace("core.cpp", "core.zz")}
    ),
    # It runs for the first time when it is asked what it requires.
    "setup.py": Broken("NameError: name 'missing_thing' is not defined", {"setup.py": "missing_thing\n"}),
    "maturin": Broken(
        "error[E0425]: cannot find value `missing_thing` in this scope",
        {
            "Cargo.toml": '[package]\nname = "demo"\nversion = "1.0.0"\nedition = "2021"\n[lib]\ncrate-type = ["cdylib"]\n',
            "Cargo.lock": 'version = 3\n\n[[package]]\nname = "demo"\nversion = "1.0.0"\n',
            "src/lib.rs": "pub extern fn answer() -> i32 { missing_thing }\n",
        },
        '["maturin>=1.7,<2"]',
        "maturin",
        recipe='[builder]\nrust = "auto"\n',
    ),
}


def project(folder: Path, broken: Broken) -> Path:
    """Write a project of two cells that nothing was ever compiled of."""
    variables = ", ".join(f'{name} = "{value}"' for name, value in broken.environment.items())
    environment = f'environment = {{ FLAVOUR = "${{FLAVOUR}}"{", " if variables else ""}{variables} }}\n'
    files = {
        "bakery.toml": f'name = "demo"\n[matrix]\npython = ["3.11"]\nflavour = ["a", "b"]\n'
        f'{broken.recipe}{environment}[wheel]\nnaming = {{ local = "${{FLAVOUR}}" }}\n',
        "pyproject.toml": f'[build-system]\nrequires = {broken.requires}\nbuild-backend = "{broken.backend}"\n'
        '[project]\nname = "demo"\nversion = "1.0"\n',
        "fresh.txt": str(uuid.uuid4()),
        **broken.files,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("tool", PROJECTS)
def test_the_message_of_the_tool_is_at_the_end(tool: str, tmp_path: Path) -> None:
    done = bakery(project(tmp_path / "project", PROJECTS[tool]), "wheel", code=7)
    end = (done.out + done.err).splitlines()[-LINES:]
    assert sum(PROJECTS[tool].message in line for line in end) == 1, "\n".join(end)
    assert any("2 of 2 cells failed" in line for line in end)
    assert any("wheel-bakery shell cp311-flavour" in line for line in end)
