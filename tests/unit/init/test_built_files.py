"""Which sources the build compiles, and what the recipe gets for those that it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from init_projects import write_project

from bakery.init.built_files import built_files
from bakery.init.make import make_recipe
from bakery.init.tree import scan
from bakery.init.write import find_target

CU = "#include <torch/extension.h>\n#include <cublas_v2.h>\n"
PROJECT = '[build-system]\nrequires = ["{backend}"]\nbuild-backend = "{backend}.build"\n[project]\nname = "wavy"\n'
SETUP = 'from setuptools import Extension, setup\nsetup(ext_modules=[Extension("wavy._c", {sources})])\n'


@pytest.mark.parametrize(
    ("files", "built"),
    [
        ({"CMakeLists.txt": "add_library(a src/a.cu)"}, ["src/a.cu"]),
        ({"CMakeLists.txt": 'file(GLOB S "src/*.cu")'}, ["src/a.cu"]),
        ({"CMakeLists.txt": "file(GLOB_RECURSE S ${CMAKE_SOURCE_DIR}/src/*.c*)"}, ["src/a.cu", "src/sub/b.cpp"]),
        ({"src/CMakeLists.txt": "file(GLOB S *.cu)"}, ["src/a.cu"]),
        ({"meson.build": "sources = files('src/a.cu')"}, ["src/a.cu"]),
        ({"setup.py": SETUP.format(sources='["src/sub/b.cpp"]')}, ["src/sub/b.cpp"]),
        ({"setup.py": SETUP.format(sources='glob("src/**/*.cpp")')}, ["src/sub/b.cpp"]),
        ({"pyproject.toml": '[[tool.setuptools.ext-modules]]\nname = "x"\nsources = ["src/a.cu"]\n'}, ["src/a.cu"]),
        # Nothing is named: nobody knows.
        ({"setup.py": SETUP.format(sources="SOURCES")}, ["src/a.cu", "src/sub/b.cpp", "utils/k.cu"]),
    ],
)
def test_what_build_files_name(tmp_path: Path, files: dict[str, str], built: list[str]) -> None:
    sources = ["src/a.cu", "src/sub/b.cpp", "utils/k.cu"]
    tree = scan(write_project(tmp_path, {**dict.fromkeys(sources, ""), **files}))
    assert sorted(built_files(tree, sources, is_native=True)) == built


def test_headers_are_those_near_compiled_files(tmp_path: Path) -> None:
    sources = ["src/a.cu", "src/a.h", "src/detail/b.h", "include/wavy/c.h", "utils/k.h"]
    tree = scan(write_project(tmp_path, {**dict.fromkeys(sources, ""), "CMakeLists.txt": "add_library(a src/a.cu)"}))
    assert sorted(built_files(tree, sources, is_native=True)) == sorted(sources[:-1])


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": PROJECT.format(backend="hatchling")},
        {"setup.py": SETUP.format(sources='["wavy/fast.c"]'), "wavy/fast.c": "#include <Python.h>\n"},
        {
            "pyproject.toml": PROJECT.format(backend="scikit_build_core"),
            "CMakeLists.txt": "project(wavy CXX)\nadd_library(w MODULE wavy/fast.cpp)\n",
            "wavy/fast.cpp": "",
        },
        # What cupy or NVRTC compiles at a user's.
        {"setup.py": SETUP.format(sources="SOURCES, package_data={'': ['*.pyx', '*.cu']}"), "wavy/fast.c": ""},
        {
            "setup.py": SETUP.format(sources="SOURCES"),
            "setup.cfg": "[options.package_data]\n* = *.cu\n",
            "wavy/fast.c": "",
        },
    ],
)
def test_a_kernel_that_no_build_compiles_needs_no_framework(tmp_path: Path, files: dict[str, str]) -> None:
    tree = scan(write_project(tmp_path, {"wavy/__init__.py": "", "utils/kernel.cu": CU, **files}))
    made = make_recipe(tree, "", find_target(tree, pyproject=False), None, lambda _question, options: options[0])
    assert not {"builder.framework", "matrix.torch", "matrix.cuda", "builder.components"} & made.draft.entries.keys()
    notes = [note for note in made.draft.notes if "no build file compiles it" in note]
    assert [note.split()[0] for note in notes] == ["utils/kernel.cu", "utils/kernel.cu:1"]


def test_a_kernel_that_the_build_compiles_does(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": PROJECT.format(backend="scikit_build_core"),
        "CMakeLists.txt": "project(wavy CXX)\nadd_library(w MODULE wavy/kernel.cu)\n",
        "wavy/kernel.cu": CU,
    }
    tree = scan(write_project(tmp_path, files))
    made = make_recipe(tree, "", find_target(tree, pyproject=False), None, lambda _question, options: options[0])
    assert made.draft.entries["builder.framework"].value == "torch"
    assert made.draft.entries["builder.framework"].reason == "wavy/kernel.cu:1"
