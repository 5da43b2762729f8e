"""Links with link-time optimization: what did not change is not linked again, and the wheel is that of a clean build."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest
from command import Done, bakery

pytestmark = pytest.mark.engine

RECIPE = """\
name = "linked"
matrix.python = ["3.11"]
builder.base = "debian"
test.imports = ["first", "second"]
"""

PYPROJECT = """\
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "linked"
version = "1.0"
"""

CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(linked LANGUAGES C)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
add_library(shared STATIC shared.c)
set_target_properties(shared PROPERTIES POSITION_INDEPENDENT_CODE ON)
foreach(name first second)
  python_add_library(${name} MODULE WITH_SOABI ${name}.c)
  target_link_libraries(${name} PRIVATE shared)
  install(TARGETS ${name} LIBRARY DESTINATION .)
endforeach()
"""

MODULE = """\
#include <Python.h>
int shared(void);
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{name}", "{text}", -1, NULL}};
PyMODINIT_FUNC PyInit_{name}(void) {{ return shared() ? PyModule_Create(&module) : NULL; }}
"""


def linked(folder: Path, done: Done) -> set[str]:
    """Return the modules that compilers linked in the last run; ninja links all in its new folder."""
    assert done.results()["wheel-cp311"]["result"] == "done"
    profile = json.loads(bakery(folder, "profile", "cp311", "--json").out)
    return set(re.findall(r"gcc/(\w+)\.cpython-311-x86_64-linux-gnu\.so", json.dumps(profile)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project of two modules that link an archive, after its first run."""
    token = uuid.uuid4().hex
    files = {"bakery.toml": RECIPE, "pyproject.toml": PYPROJECT, "CMakeLists.txt": CMAKE}
    files["shared.c"] = f'const char *token = "{token}"; int shared(void) {{ return token[0]; }}\n'
    files |= {f"{name}.c": MODULE.format(name=name, text="one") for name in ("first", "second")}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert linked(tmp_path, bakery(tmp_path, "full")) == {"first", "second"}
    return tmp_path


@pytest.mark.proof
def test_only_what_changed_is_linked(folder: Path) -> None:
    (folder / "second.c").write_text(MODULE.format(name="second", text="two"))
    assert linked(folder, bakery(folder, "wheel")) == {"second"}


@pytest.mark.proof
def test_the_wheel_is_that_of_a_build_without_cache(folder: Path) -> None:
    # Both modules have the archive's code.
    (folder / "shared.c").write_text('const char *token = "other"; int shared(void) { return token[1]; }\n')
    assert linked(folder, bakery(folder, "full")) == {"first", "second"}
    (folder / "first.c").write_text(MODULE.format(name="first", text="two"))
    done = bakery(folder, "full")
    assert linked(folder, done) == {"first"}
    bakery(folder, "reproduce", str(done.wheels[0]))
