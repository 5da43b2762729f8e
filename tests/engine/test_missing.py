"""Twelve builds that each lack something: every failure names it, and the line of the recipe that provides it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command import bakery
from projects import REQUIRES, SOURCE, extension

pytestmark = pytest.mark.engine

_SCIKIT = '["scikit-build-core", "cmake<4", "ninja"]'
_CMAKE = "cmake_minimum_required(VERSION 3.15)\nproject(lacking LANGUAGES {})\n{}\n"
_RUST = "from setuptools import setup\nfrom setuptools_rust import RustExtension\nsetup(rust_extensions=[RustExtension('x')])"
_EXTENSION = "from setuptools import Extension, setup\nsetup(ext_modules=[Extension('x', {})])"
_SUBMODULE = {"extern/fmt/.keep": "", "CMakeLists.txt": _CMAKE.format("C", "add_subdirectory(extern/fmt)")}


@dataclass(frozen=True)
class Lacking:
    """A project, and what its failure must say."""

    said: str
    setup: str = ""
    requires: str = REQUIRES
    backend: str = "setuptools.build_meta"
    project: str = ""
    builder: str = ""
    files: dict[str, str] = field(default_factory=dict)


PROJECTS = {
    "header": Lacking(
        'fftw3.h not found: builder.system-packages = ["libfftw3-dev"]',
        _EXTENSION.format("['x.c']"),
        files={"x.c": "#include <fftw3.h>\n"},
    ),
    "module": Lacking('the Python module numpy not found: builder.requirements = ["numpy"]', "import numpy"),
    "program": Lacking(
        'the program swig not found: builder.system-packages = ["swig"]',
        _EXTENSION.format("['x.i']"),
        files={"x.i": ""},
    ),
    "cmake": Lacking(
        'the program cmake not found: builder.requirements = ["cmake"]',
        "import subprocess\nsubprocess.check_call(['cmake', '-S', '.'])",
    ),
    "ninja": Lacking(
        'the program ninja not found: builder.requirements = ["ninja"]',
        "import subprocess\nsubprocess.check_call('ninja -C build', shell=True)",
    ),
    "library": Lacking(
        'the library fftw3 not found: builder.system-packages = ["libfftw3-dev"]',
        _EXTENSION.format("['x.c'], libraries=['fftw3']"),
        files={"x.c": "int x;\n"},
    ),
    "pkg-config": Lacking(
        'fftw3 (pkg-config) not found: builder.system-packages = ["pkg-config", "libfftw3-dev"]',
        "import subprocess\nsubprocess.check_call(['pkg-config', '--print-errors', '--exists', 'fftw3'])",
        builder='system-packages = ["pkg-config"]\n',
    ),
    "rust": Lacking(
        "Rust (cargo and rustc) not found: ",
        _RUST,
        requires='["setuptools>=77", "setuptools-rust"]',
        files={"Cargo.toml": '[package]\nname = "x"\nversion = "1.0.0"\n'},
    ),
    "fortran": Lacking(
        'a Fortran compiler not found: builder.system-packages = ["gfortran"]',
        requires='["meson-python", "ninja"]',
        backend="mesonpy",
        files={"meson.build": "project('lacking', 'c', 'fortran', version: '1.0')\n"},
    ),
    "backend": Lacking(
        'needs setuptools >= 77 (a license as text, PEP 639): builder.requirements = ["setuptools>=77"]',
        requires='["setuptools==69.5.1", "wheel"]',
        project='license = "MIT"\n',
    ),
    "submodule": Lacking(
        "git submodule update --init", requires=_SCIKIT, backend="scikit_build_core.build", files=_SUBMODULE
    ),
    "cuda": Lacking(
        "CUDA not found: builder.toolkit",
        requires=_SCIKIT,
        backend="scikit_build_core.build",
        files={"CMakeLists.txt": _CMAKE.format("C CUDA", "")},
    ),
}


def write(folder: Path, *names: str) -> Path:
    """Write a workspace with the projects of these names; each has one Python."""
    (folder / "bakery.toml").parent.mkdir(parents=True)
    (folder / "bakery.toml").write_text(f"[workspace]\nrecipes = {list(names)}\n")
    for name in names:
        item = PROJECTS[name]
        files = {
            "bakery.toml": f'name = "{name}"\n[builder]\n{item.builder}',
            "pyproject.toml": f'[build-system]\nrequires = {item.requires}\nbuild-backend = "{item.backend}"\n'
            f'[project]\nname = "{name}"\nversion = "1.0"\n{item.project}',
            **({"setup.py": item.setup} if item.setup else {}),
            **item.files,
        }
        for file, text in files.items():
            (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / file).write_text(text)
    return folder


def told(folder: Path, *names: str) -> str:
    """Bake the projects of these names, which must all fail; return what the command says at its end."""
    done = bakery(write(folder, *names), "wheel", "--keep-going", code=7)
    assert f"{len(names)} of {len(names)} cells failed" in done.err
    for name in names:
        assert PROJECTS[name].said in done.err[done.err.rindex("cells failed") :], name
    return done.err


def test_three_builds_say_what_they_lack(tmp_path: Path) -> None:
    err = told(tmp_path / "three", "header", "module", "program")
    end = err[err.rindex("cells failed") :]
    assert "x.c:1:10: fatal error: fftw3.h: No such file or directory" in end
    assert "ModuleNotFoundError: No module named 'numpy'" in end


@pytest.mark.proof
def test_each_build_says_what_it_lacks(tmp_path: Path) -> None:
    told(tmp_path / "all", *(name for name in PROJECTS if name not in ("header", "module", "program")))


def test_one_cell_says_what_it_lacks(tmp_path: Path) -> None:
    folder = write(tmp_path / "one", "header") / "header"
    done = bakery(folder, "wheel", code=7)
    end = done.err[done.err.rindex("bake: ") :]
    assert "fatal error: fftw3.h: No such file or directory" in end
    assert f"→ {PROJECTS['header'].said}" in end
    assert PROJECTS["header"].said in str(done.results()["wheel-cp311"]["reason"])


@pytest.mark.proof
def test_different_tags_of_one_recipe_are_told(tmp_path: Path) -> None:
    recipe = 'name = "tiny"\n[matrix]\npython = ["3.11", "3.13"]\n'
    source = SOURCE.replace("PyLong_FromLong(42)", "(std::cout << 42, PyLong_FromLong(42))")
    extension(tmp_path / "tiny", recipe, "#include <iostream>\n" + source)
    done = bakery(tmp_path / "tiny", "wheel")
    assert "the platform tags of the wheels differ" in done.err
    assert "GLIBCXX_3.4.32 needed by tiny/_core.cpython-313-x86_64-linux-gnu.so" in done.err
