"""A project with a stable-ABI extension for two Pythons."""

from __future__ import annotations

import uuid
from pathlib import Path

from projects import extension

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


ANY_PYTHON = """\
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

class Library(build_ext):
    def get_ext_filename(self, fullname):
        return fullname.replace(".", "/") + ".so"

class Wheel(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])

setup(packages=["tiny"], package_dir={"": "src"}, cmdclass={"build_ext": Library, "bdist_wheel": Wheel},
      ext_modules=[Extension("tiny.libcore", ["src/core.c"])])
"""
"""What a setup.py builds a library for ctypes with, in a wheel for every Python 3."""


def library(folder: Path) -> Path:
    """Write a project whose wheel has a library for ctypes, which says what compiled it."""
    project(folder, "")
    recipe = folder / "bakery.toml"
    recipe.write_text(recipe.read_text().replace('abi3 = "3.11"', "py3 = true"))
    (folder / "setup.py").write_text(SETUP[: SETUP.index("options, macros")].replace("LIMITED\n", "") + ANY_PYTHON)
    (folder / "src" / "core.cpp").unlink()
    (folder / "src" / "core.c").write_text("const char *stamp(void) { return __VERSION__; }\n")
    (folder / "src" / "tiny" / "__init__.py").write_text(
        # No test of it is in any cache.
        f"import ctypes, pathlib  # {uuid.uuid4()}\n"
        "core = ctypes.CDLL(pathlib.Path(__file__).with_name('libcore.so'))\n"
        "core.stamp.restype = ctypes.c_char_p\n"
        "stamp = lambda: 'stamp ' + core.stamp().decode().replace(' ', '_')\n"
    )
    return folder


def same(folder: Path, named: str = "") -> Path:
    """Write a project whose wheels are the same with each Python: a native step compiles the library once."""
    library(folder)
    (folder / "native").mkdir()
    (folder / "src" / "core.c").rename(folder / "native" / "core.c")
    setup = (folder / "setup.py").read_text()
    (folder / "setup.py").write_text(
        setup[: setup.index("setup(packages")]
        + "class Binary(Distribution):\n    def has_ext_modules(self):\n        return True\n\n"
        + 'setup(packages=["tiny"], package_dir={"": "src"}, package_data={"tiny": ["*.so"]}, distclass=Binary,\n'
        + '      cmdclass={"bdist_wheel": Wheel})\n'
    )
    setup = (
        (folder / "setup.py")
        .read_text()
        .replace("from setuptools import Extension, setup", "from setuptools import Distribution, setup")
    )
    (folder / "setup.py").write_text(setup)
    native = """
[native]
command = "gcc -shared -fPIC -O2 native/core.c -o /native/libcore.so"
into = "src/tiny"
"""
    recipe = folder / "bakery.toml"
    recipe.write_text(
        recipe.read_text().replace("[wheel]\npy3 = true\n", f"[wheel]{named}\n" if named else "") + native
    )
    return folder


def unannounced(folder: Path) -> Path:
    """Remove what the recipe says of the wheel."""
    recipe = folder / "bakery.toml"
    recipe.write_text(recipe.read_text().replace('[wheel]\nabi3 = "3.11"\n', ""))
    return folder


def project(folder: Path, limited: str = LIMITED) -> Path:
    """Write the project; no step of it is in any cache."""
    extension(folder, RECIPE, SOURCE)
    (folder / "src" / "tiny" / "__init__.py").write_text("from tiny._core import stamp\n")
    (folder / "setup.py").write_text(SETUP.replace("LIMITED\n", limited))
    (folder / "fresh.txt").write_text(str(uuid.uuid4()))
    return folder
