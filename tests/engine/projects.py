"""Small projects to bake. All of them share the layers of examples/cpp, so that a bake takes seconds."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from command import ROOT

REQUIRES = '["setuptools>=77"]'
"""As examples/cpp has it: the same list is the same builder."""

_BACKEND = '''\
"""Builds a wheel of one module that tells how it was built; no program is called."""

import base64, hashlib, json, os, shutil, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    told = {
        "environment": dict(os.environ),
        "settings": config_settings,
        "programs": {name: shutil.which(name) for name in ("tree", "uv")},
    }
    info = "demo-1.0.dist-info"
    files = {
        "demo.py": "TOLD = " + repr(json.dumps(told)) + "\\n",
        info + "/METADATA": "Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n",
        info + "/WHEEL": "Wheel-Version: 1.0\\nGenerator: demo\\nRoot-Is-Purelib: true\\nTag: TAG-none-any\\n",
    }
    record = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}"
        for name, text in files.items()
    ]
    files[info + "/RECORD"] = "\\n".join([*record, info + "/RECORD,,"]) + "\\n"
    with zipfile.ZipFile(os.path.join(wheel_directory, "demo-1.0-TAG-none-any.whl"), "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return "demo-1.0-TAG-none-any.whl"
'''


def example(folder: Path, recipe: str) -> Path:
    """Copy examples/cpp with another recipe; return its folder."""
    shutil.copytree(ROOT / "examples" / "cpp", folder, ignore=shutil.ignore_patterns(".bakery", "build", "*.egg-info"))
    (folder / "bakery.toml").write_text(recipe)
    return folder


def cuda_example(folder: Path, toolkit: str, **more: str) -> Path:
    """Copy examples/cuda for another toolkit; ``more`` replaces settings that its recipe has."""
    shutil.copytree(
        ROOT / "examples" / "cuda", folder, ignore=shutil.ignore_patterns(".bakery", "dist", "build", "*.egg-info")
    )
    recipe = folder / "bakery.toml"
    text = re.sub(r"(?m)^#:schema.*\n", "", recipe.read_text())
    for key, value in {"toolkit": f'"{toolkit}"', **more}.items():
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        assert count == 1, key
    recipe.write_text(text)
    return folder


def extension(folder: Path, recipe: str, source: str, *, setup: str = "") -> Path:
    """Write a project with one C++ file; ``setup`` stands before the call in its setup.py."""
    (folder / "src" / "tiny").mkdir(parents=True)
    (folder / "src" / "tiny" / "__init__.py").write_text("from tiny._core import answer\n")
    (folder / "src" / "core.cpp").write_text(source)
    (folder / "pyproject.toml").write_text(
        f'[build-system]\nrequires = {REQUIRES}\nbuild-backend = "setuptools.build_meta"\n\n'
        '[project]\nname = "tiny"\nversion = "1.0"\n'
    )
    (folder / "setup.py").write_text(
        f"from setuptools import Extension, setup\n\n{setup}\n"
        "setup(packages=['tiny'], package_dir={'': 'src'}, include_package_data=False,\n"
        "      package_data={'tiny': ['*.so*']},\n"
        "      ext_modules=[Extension('tiny._core', ['src/core.cpp'], language='c++')])\n"
    )
    (folder / "bakery.toml").write_text(recipe)
    return folder


SOURCE = """\
#include <Python.h>

static PyObject *answer(PyObject *, PyObject *) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit__core() { return PyModuleDef_Init(&module); }
"""
"""An extension whose ``answer()`` is 42."""


def pure(folder: Path, recipe: str, *, tag: str = "py3") -> Path:
    """Write a project without machine code, built by a backend of its own (module ``demo``)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "backend.py").write_text(_BACKEND.replace("TAG", tag))
    (folder / "pyproject.toml").write_text(
        f'[build-system]\nrequires = {REQUIRES}\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (folder / "bakery.toml").write_text(recipe)
    return folder


FLAVOURS = """\
name = "demo"
[matrix]
python = ["3.11"]
flavour = [@]
[builder]
environment = { FLAVOUR = "${FLAVOUR}" }
[wheel]
repair = false
naming = { local = "${FLAVOUR}" }
"""


def flavours(folder: Path, names: Sequence[str], behaviour: str) -> Path:
    """Write a project without machine code that has a cell and a wheel for each name.

    Args:
        behaviour: Python that the build of a wheel runs first; ``flavour`` is the cell's name there.
    """
    pure(folder, FLAVOURS.replace("@", ", ".join(f'"{name}"' for name in names)))
    (folder / "fresh.txt").write_text(str(uuid.uuid4()))
    backend = folder / "backend.py"
    first = f"import os, sys, time\nflavour = os.environ.get('FLAVOUR')\n{behaviour}\n"
    backend.write_text(backend.read_text().replace("import base64", f"{first}import base64", 1))
    return folder
