"""Wheels that auditwheel cannot tell the tag of, or cannot repair: what pip builds is built, or the reason is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import bakery
from projects import SOURCE, extension

pytestmark = pytest.mark.engine

NEEDS_NOTHING = """\
#include <Python.h>

static PyMethodDef methods[] = {{nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit__core() { return PyModuleDef_Init(&module); }
"""
RECIPE = 'name = "tiny"\n[matrix]\npython = ["3.11"]\n'
LIMITED = (
    "macros = [('Py_LIMITED_API', '0x030B0000')]\n"
    "setup(packages=['tiny'], package_dir={'': 'src'}, options={'bdist_wheel': {'py_limited_api': 'cp311'}},\n"
    "      ext_modules=[Extension('tiny._core', ['src/core.cpp'], py_limited_api=True, define_macros=macros,\n"
    "                             extra_link_args=['-nodefaultlibs'])])\n"
)


def test_an_extension_that_needs_nothing_of_libc_gets_the_lowest_tag(tmp_path: Path) -> None:
    project = extension(tmp_path / "tiny", RECIPE + '[wheel]\nabi3 = "3.11"\n[test]\nimports = ["tiny._core"]\n', "")
    (project / "src" / "core.c").write_text(NEEDS_NOTHING.replace("nullptr", "NULL"))
    (project / "src" / "tiny" / "__init__.py").write_text("")
    (project / "setup.py").write_text(
        "from setuptools import Extension, setup\n" + LIMITED.replace("core.cpp", "core.c")
    )
    (wheel,) = bakery(project, "full").wheels
    # The tag of the image's glibc, and the one that auditwheel finds.
    assert wheel.name.startswith("tiny-1.0-cp311-abi3-manylinux1_x86_64.manylinux_2_")


def test_a_platform_wheel_without_machine_code_is_built_and_told(tmp_path: Path) -> None:
    project = extension(tmp_path / "tiny", RECIPE, "")
    (project / "src" / "tiny" / "__init__.py").write_text("answer = 42\n")
    (project / "setup.py").write_text(
        "from setuptools import Distribution, setup\n"
        "class Binary(Distribution):\n    def has_ext_modules(self): return True\n"
        "setup(packages=['tiny'], package_dir={'': 'src'}, distclass=Binary)\n"
    )
    done = bakery(project, "wheel")
    (wheel,) = done.wheels
    assert wheel.name.startswith("tiny-1.0-cp311-cp311-manylinux_2_")
    assert "is tagged for a machine, and has no machine code" in done.err


def test_a_library_of_the_wheel_without_a_search_path_is_named(tmp_path: Path) -> None:
    source = SOURCE.replace("static PyObject *answer", 'extern "C" int deep();\nstatic PyObject *answer').replace(
        "(42)", "(deep())"
    )
    project = extension(tmp_path / "tiny", RECIPE, source)
    (project / "setup.py").write_text(
        "import os, subprocess\nfrom setuptools import Extension, setup\n"
        "os.makedirs('src/tiny/sub', exist_ok=True)\n"
        "subprocess.run(['cc', '-shared', '-fPIC', '-Wl,-soname,libdeep.so', '-o', 'src/tiny/sub/libdeep.so', 'src/deep.c'], check=True)\n"
        "setup(packages=['tiny'], package_dir={'': 'src'}, package_data={'tiny': ['sub/*.so']},\n"
        "      ext_modules=[Extension('tiny._core', ['src/core.cpp'], library_dirs=['src/tiny/sub'], libraries=['deep'])])\n"
    )
    (project / "src" / "deep.c").write_text("int deep(void) { return 42; }\n")
    done = bakery(project, "wheel", code=7)
    assert "needs libdeep.so, which is in the wheel as tiny/sub/libdeep.so, but no RPATH leads there" in done.err
    assert "'$ORIGIN/sub'" in done.err
