"""Settings for some cells: one recipe, one bake file, and wheels that are what each cell asks for."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from command import bakery
from projects import REQUIRES

pytestmark = pytest.mark.engine

SETUP = """\
import os
from setuptools import Extension, setup

limited = os.environ.get("STABLE") == "1"
macros = [("FLAVOUR", '"' + os.environ["FLAVOUR"] + '"')] + [("Py_LIMITED_API", "0x030d0000")] * limited
setup(
    name="mixed", version="1.0", packages=["mixed"], package_data={"mixed": ["made.txt"]}, include_package_data=False,
    ext_modules=[Extension("mixed._core", ["core.c"], define_macros=macros, py_limited_api=limited)],
    options={"bdist_wheel": {"py_limited_api": "cp313"}} if limited else {},
)
"""

CORE = """\
#include <Python.h>
static PyObject *flavour(PyObject *self, PyObject *args) { return PyUnicode_FromString(FLAVOUR); }
static PyMethodDef methods[] = {{"flavour", flavour, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", NULL, 0, methods};
PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&module); }
"""

RECIPE = """\
name = "mixed"
builder = { environment = { FLAVOUR = "plain" } }
native = { command = "echo made > /native/made.txt", into = "mixed" }

[matrix]
python = ["3.11", "3.13", "3.14"]

[[matrix.overrides]]
where = { python = "3.1[34]" }
builder = { environment = { STABLE = "1" } }
wheel = { abi3 = "3.13" }

[[matrix.overrides]]
where = { python = "3.14" }
test = { command = "python -c 'import mixed._core as m; assert m.flavour() == \\"plain\\"; print(\\"tested \\" + \\"here\\")'" }

[test]
imports = ["mixed._core"]
"""


@pytest.mark.proof
def test_a_plain_wheel_and_a_wheel_for_newer_pythons_from_one_recipe(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    texts = {
        "bakery.toml": RECIPE,
        "setup.py": SETUP,
        "core.c": CORE,
        "mixed/__init__.py": "",
        "pyproject.toml": f'[build-system]\nrequires = {REQUIRES}\nbuild-backend = "setuptools.build_meta"\n',
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    done = bakery(folder, "full")
    assert [re.sub("manylinux.*", "", wheel.name) for wheel in sorted(done.wheels)] == [
        "mixed-1.0-cp311-cp311-",
        "mixed-1.0-cp313-abi3-",
    ]
    for wheel in done.wheels:
        with zipfile.ZipFile(wheel) as archive:
            assert archive.read("mixed/made.txt") == b"made\n"
    assert "m.flavour()" in done.log("test-cp314")
    assert "m.flavour()" not in done.log("test-cp313")
    # Nothing is stale, and what a cell does not share with another one is what its settings say.
    assert "up to date" in bakery(folder, "full", "--if-changed").err
    text = (folder / "bakery.toml").read_text()
    (folder / "bakery.toml").write_text(text.replace('STABLE = "1"', 'STABLE = "1", MORE = "1"'))
    assert bakery(folder, "full", "--if-changed").results().keys() >= {"wheel-cp313"}
