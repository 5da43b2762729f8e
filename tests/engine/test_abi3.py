"""Stable ABI: one wheel for several Pythons, built once and tested on each."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest
from command import bakery
from projects import extension

pytestmark = pytest.mark.engine

RECIPE = """\
name = "tiny"
[matrix]
python = ["3.13", "3.11"]
[wheel]
abi3 = "3.11"
[test]
imports = ["tiny"]
command = "python -c 'import sys, tiny; print(sys.version_info[1], tiny.stamp())'"
"""

SOURCE = """\
#include <Python.h>

#include <cstdlib>

// What needs nothing of the C library tells auditwheel of none.
static PyObject *stamp(PyObject *, PyObject *) { return PyUnicode_FromString(std::getenv("NONE") ? "" : STAMP); }
static PyMethodDef methods[] = {{"stamp", stamp, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit__core() { return PyModuleDef_Init(&module); }
"""

LIMITED = """\
options = {"bdist_wheel": {"py_limited_api": "cp311"}}
macros = [("Py_LIMITED_API", "0x030B0000")]
"""
SETUP = """\
import uuid

from setuptools import Extension, setup

options, macros = {}, []
LIMITED
# Another number in each build: it tells whether two Pythons had the same one.
macros.append(("STAMP", f'"stamp {uuid.uuid4()}"'))
setup(packages=["tiny"], package_dir={"": "src"}, options=options,
      ext_modules=[Extension("tiny._core", ["src/core.cpp"], language="c++", define_macros=macros,
                             py_limited_api=bool(options))])
"""


def project(folder: Path, limited: str = LIMITED) -> Path:
    """Write the project; no step of it is in any cache."""
    extension(folder, RECIPE, SOURCE)
    (folder / "src" / "tiny" / "__init__.py").write_text("from tiny._core import stamp\n")
    (folder / "setup.py").write_text(SETUP.replace("LIMITED\n", limited))
    (folder / "fresh.txt").write_text(str(uuid.uuid4()))
    return folder


def test_built_once_and_tested_on_all(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    done = bakery(folder, "full")
    (wheel,) = done.wheels
    assert wheel.name.startswith("tiny-1.0-cp311-abi3-manylinux")
    assert set(done.results()) == {"wheel-cp311", "test-cp311", "test-cp313"}
    said = {name: re.findall(r"(?m)\b(\d+) (stamp \S+)$", done.log(name)) for name in ("test-cp311", "test-cp313")}
    ((old, first),), ((new, second),) = said.values()
    assert (old, new) == ("11", "13")
    assert first == second
    # The other cell's name stands for the wheel that it shares.
    again = bakery(folder, "wheel", "--only", "cp313")
    assert [path.name for path in again.wheels] == [wheel.name]
    assert set(again.results()) == {"wheel-cp311"}


def test_a_wheel_for_one_python_only(tmp_path: Path) -> None:
    done = bakery(project(tmp_path / "project", ""), "wheel", code=8)
    said = " ".join(done.err.split())
    assert "has ABI tag cp311, expected a stable-ABI wheel" in said
    assert "or remove wheel.abi3 from the recipe" in said
    assert not list((tmp_path / "project" / "dist").glob("*.whl"))
