"""``wheel --incremental``: one changed file compiles one object, and the wheel is that of a clean build."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from command import bakery, digests

pytestmark = pytest.mark.engine

EDITS = 30
RECIPE = """\
name = "summing"
[matrix]
python = ["3.11"]
[builder]
base = "debian"
"""


@dataclass(frozen=True)
class State:
    """What a project is at a moment: sources and the number that each returns, and the other numbers in its files."""

    sources: Mapping[str, int] = field(default_factory=lambda: {"one": 1, "two": 2, "three": 3})
    header: int = 5
    option: int = 2
    version: int = 0
    module: int = 7


def edited(state: State, past: list[State], choose: random.Random) -> tuple[str, State]:
    """Return what a random edit does, and the state after it."""
    name, number = choose.choice(sorted(state.sources)), choose.randrange(10**6)
    others = {key: value for key, value in state.sources.items() if key != name}
    edits: dict[str, Callable[[], State]] = {
        f"{name} is {number}": lambda: replace(state, sources={**state.sources, name: number}),
        f"header {number}": lambda: replace(state, header=number),
        f"new source_{number}": lambda: replace(state, sources={**state.sources, f"source_{number}": number}),
        f"{name} is removed": lambda: replace(state, sources=others or state.sources),
        f"{name} is source_{number}": lambda: replace(state, sources={**others, f"source_{number}": 1}),
        f"option {number % 3 + 1}": lambda: replace(state, option=number % 3 + 1),
        f"version {number}": lambda: replace(state, version=number),
        f"module {number}": lambda: replace(state, module=number),
        "back": lambda: choose.choice(past),
        "the same": lambda: state,
    }
    what, edit = choose.choices(list(edits.items()), weights=(6, 4, 1, 1, 1, 1, 1, 1, 3, 1))[0]
    return what, edit()


CORE = """\
#include <Python.h>
#include "common.h"
{declared}
static PyObject *total(PyObject *, PyObject *) {{ return PyLong_FromLong(COMMON + OPTION{added}); }}
static PyMethodDef methods[] = {{{{"total", total, METH_NOARGS, nullptr}}, {{nullptr, nullptr, 0, nullptr}}}};
static PyModuleDef module = {{PyModuleDef_HEAD_INIT, "summing", __FILE__, 0, methods, nullptr, nullptr, nullptr, nullptr}};
PyMODINIT_FUNC PyInit_summing() {{ return PyModuleDef_Init(&module); }}
"""

CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(summing LANGUAGES CXX)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
file(GLOB SOURCES src/*.cpp)
python_add_library(summing MODULE WITH_SOABI ${{SOURCES}})
target_compile_definitions(summing PRIVATE OPTION={option})
install(TARGETS summing LIBRARY DESTINATION .)
install(FILES summing_text.py DESTINATION .)
"""

MESON = """\
project('summing', 'cpp', version: '1.{version}', default_options: ['buildtype=release'])
py = import('python').find_installation(pure: false)
py.extension_module('summing', {sources}, cpp_args: ['-DOPTION={option}'], install: true)
py.install_sources('summing_text.py')
"""


def sources_of_cpp(state: State) -> dict[str, str]:
    names = sorted(state.sources)
    return {
        "src/core.cpp": CORE.format(
            declared="\n".join(f"int {name}();" for name in names), added="".join(f" + {name}()" for name in names)
        ),
        "src/common.h": f"#define COMMON {state.header}\n",
        "summing_text.py": f"NUMBER = {state.module}\n",
        **{
            f"src/{name}.cpp": f'#include "common.h"\nint {name}() {{ return {number} * COMMON + OPTION; }}\n'
            for name, number in state.sources.items()
        },
    }


def with_cmake(state: State) -> dict[str, str]:
    return {
        "pyproject.toml": '[build-system]\nrequires = ["scikit-build-core"]\nbuild-backend = "scikit_build_core.build"\n'
        f'[project]\nname = "summing"\nversion = "1.{state.version}"\n',
        "CMakeLists.txt": CMAKE.format(option=state.option),
        "bakery.toml": RECIPE,
        **sources_of_cpp(state),
    }


def with_meson(state: State) -> dict[str, str]:
    listed = [f"src/{name}.cpp" for name in ("core", *sorted(state.sources))]
    return {
        "pyproject.toml": '[build-system]\nrequires = ["meson-python"]\nbuild-backend = "mesonpy"\n'
        '[project]\nname = "summing"\ndynamic = ["version"]\n',
        "meson.build": MESON.format(version=state.version, sources=listed, option=state.option),
        "bakery.toml": RECIPE,
        **sources_of_cpp(state),
    }


def with_cargo(state: State) -> dict[str, str]:
    names = sorted(state.sources)
    added = "".join(f" + {name}::value()" for name in names)
    return {
        "pyproject.toml": '[build-system]\nrequires = ["maturin>=1.7,<2"]\nbuild-backend = "maturin"\n'
        '[tool.maturin]\nbindings = "bin"\n'
        f'[project]\nname = "summing"\nversion = "1.{state.version}"\n',
        "Cargo.toml": '[package]\nname = "summing"\nedition = "2021"\n'
        f'version = "1.{state.version}.0"\n[profile.release]\nopt-level = {state.option}\n',
        "Cargo.lock": f'version = 3\n\n[[package]]\nname = "summing"\nversion = "1.{state.version}.0"\n',
        "src/main.rs": "mod common;\n"
        + "".join(f"mod {name};\n" for name in names)
        + f'fn main() {{ println!("{{}}", common::COMMON{added}); }}\n',
        "src/common.rs": f"pub const COMMON: i64 = {state.header};\n",
        "README.md": f"{state.module}\n",
        "bakery.toml": RECIPE.replace("[builder]\n", '[builder]\nrust = "auto"\n'),
        **{
            f"src/{name}.rs": f"use crate::common::COMMON;\npub fn value() -> i64 {{ {number} * COMMON }}\n"
            for name, number in state.sources.items()
        },
    }


PROJECTS = {"cmake": with_cmake, "meson": with_meson, "cargo": with_cargo}


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a project that differ, and remove the others."""
    for path in [*folder.glob("src/*"), *folder.glob("*.*")]:
        if path.is_file() and path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def compiled(log: str) -> list[str]:
    """Return the C++ files that ninja compiled."""
    return re.findall(r"Building CXX object \S*/(\w+\.cpp)\.o", log)


def test_one_changed_file_compiles_one_object(tmp_path: Path) -> None:
    state = State(header=random.randrange(10**9))
    write(tmp_path, with_cmake(state))
    first = bakery(tmp_path, "wheel", "--incremental").log("wheel-cp311")
    assert "bakery: incremental: builds everything: there is no build folder of an earlier run" in first
    write(tmp_path, with_cmake(replace(state, sources={**state.sources, "two": 22})))
    done = bakery(tmp_path, "wheel", "--incremental")
    log = done.log("wheel-cp311")
    assert re.search(r"bakery: incremental: 1 of \d+ files changed", log)
    assert compiled(log) == ["two.cpp"]
    assert len(compiled(first)) == 4
    assert json.loads((done.runs[-1] / "report.json").read_text())["incremental"] is True
    assert "was built with --incremental" in bakery(tmp_path, "verify", "dist", code=8).err


@pytest.mark.proof
@pytest.mark.parametrize("project", PROJECTS)
def test_random_edits_give_the_wheel_of_a_clean_build(tmp_path: Path, project: str) -> None:
    # Wheels in the project would be source files that change in each run.
    folder, choose = tmp_path / "project", random.Random(project)
    state, past, kept = State(header=random.randrange(10**9)), [], 0
    for number in range(EDITS + 1):
        past.append(state)
        what, state = edited(state, past, choose) if number else ("first", state)
        write(folder, PROJECTS[project](state))
        done = bakery(folder, "wheel", "--incremental", "--output", str(tmp_path / "kept"))
        kept += "files changed" in done.log("wheel-cp311")
        bakery(folder, "wheel", "--output", str(tmp_path / "clean"))
        names = [path.name for path in done.wheels]
        ours, clean = digests(tmp_path / "kept"), digests(tmp_path / "clean")
        assert [ours[name] for name in names] == [clean[name] for name in names], f"edit {number}: {what}"
    # Otherwise the comparison says nothing about build folders that are used again.
    assert kept > EDITS / 4


@pytest.mark.proof
def test_a_run_without_the_option_bakes_again(tmp_path: Path) -> None:
    write(tmp_path, with_cmake(State(header=random.randrange(10**9))))
    bakery(tmp_path, "wheel", "--incremental")
    assert "up to date" in bakery(tmp_path, "wheel", "--incremental", "--if-changed").err
    incremental = digests(tmp_path / "dist")
    done = bakery(tmp_path, "wheel", "--if-changed")
    assert "up to date" not in done.err
    assert digests(tmp_path / "dist") == incremental
    assert json.loads((done.runs[-1] / "report.json").read_text())["incremental"] is False
    bakery(tmp_path, "verify", "dist")
