"""Small projects whose files would multiply: each is read in time and memory that grow as its files do."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from file_trees import write_files
from init_projects import made

from bakery.core.errors import BakeryError
from bakery.init.findings import Toml, read_toml
from bakery.init.read_setup_py import read_setup_py
from bakery.init.read_tests import listed_requirements
from bakery.init.tree import Tree, scan

PROJECT = '[project]\nname = "victim"\nversion = "1"\n'
VARIABLE = '"${A}"'
LIMIT_S = 5.0
"""Seconds of a processor, as in docs/fuzzing.md; each takes a tenth of a second, and took minutes."""


def make(root: Path) -> None:
    with suppress(BakeryError):
        made(root)


def listed(item: str, times: int) -> str:
    return "[" + ", ".join([item] * times) + "]"


def cibuildwheel(line: str) -> str:
    return f"{PROJECT}[tool.cibuildwheel]\n{line}\n"


PROJECTS: dict[str, Mapping[str, str]] = {
    "blanks in setup.cfg": {"setup.cfg": f"[metadata]\nname=a\n[options]\na{' ' * 60_000}b\n"},
    "blanks in tox.ini": {"pyproject.toml": PROJECT, "tox.ini": f"[pytest]\na{' ' * 60_000}b\n"},
    "a name for a list in every call": {
        "setup.py": f"X={listed('0', 15_000)}\n" + "setup(a=X,b=X,c=X)\nExtension(X, libraries=X)\n" * 1000
    },
    "a script in every word": {
        "pyproject.toml": cibuildwheel(f'repair-wheel-command = "make {"a " * 9000}"'),
        "a": "x\n" * 100_000,
    },
    "a program in every option": {
        "pyproject.toml": cibuildwheel(f'repair-wheel-command = "{"-/auditwheel " * 40_000}"')
    },
    "the same in a script": {
        "pyproject.toml": cibuildwheel('repair-wheel-command = "bash a"'),
        "a": f"auditwheel {'-/auditwheel ' * 30_000}",
    },
    "a long word": {"pyproject.toml": cibuildwheel(f'before-all = "{"a" * 500_000}"')},
    "a group in every group": {
        "pyproject.toml": f"{PROJECT}[dependency-groups]\ntest = [{{include-group = 'g0'}}]\n"
        + "".join(f"g{n} = {listed('{include-group = GROUP}', 4)}\n".replace("GROUP", f"'g{n + 1}'") for n in range(19))
        + "g19 = ['pytest']\n"
    },
    "paths of tests": {
        "pyproject.toml": f"{PROJECT}[tool.pytest.ini_options]\ntestpaths = '{'tests ' * 80_000}'\n",
        **{f"tests/test_{n}.py": "" for n in range(50)},
    },
    "a variable in every value": {
        "pyproject.toml": PROJECT,
        "docker-bake.json": f'{{"A": {listed("1", 6000)}, "target": {{"t": {{"platforms": {listed(VARIABLE, 1500)}}}}}}}',
    },
}


@pytest.mark.parametrize("name", PROJECTS)
def test_time_grows_as_the_files_do(name: str, tmp_path: Path) -> None:
    root = write_files(tmp_path, dict(PROJECTS[name]))
    began = time.process_time()
    make(root)
    assert time.process_time() - began < LIMIT_S


def test_a_file_that_commands_name_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: Counter[str] = Counter()
    read = Tree.read

    def counted(tree: Tree, name: str, *words: int) -> bytes | None:
        reads[name] += 1
        return read(tree, name, *words)

    monkeypatch.setattr(Tree, "read", counted)
    words = "a " * 200
    settings = f'before-build = "make {words}"\nbefore-all = "make {words}"\nrepair-wheel-command = "make {words}"'
    make(write_files(tmp_path, {"pyproject.toml": cibuildwheel(settings), "a": "x"}))
    assert 1 <= reads["a"] <= 6  # A plan that is refused is made twice.


def test_facts_of_a_setup_py_do_not_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    values = "X = " + listed("'a'", 5000)
    setup = read_setup_py(f"{values}\n" + "setup(a=X)\n" * 100 + "Extension('b', libraries=X)\n" * 100)
    assert setup
    assert len(setup.keywords["a"]) + len(setup.libraries) <= 50_000
    assert setup.keywords["a"]
    monkeypatch.setattr("bakery.init.read_setup_py.LARGEST", 1000)
    assert read_setup_py("a;" * 500) is not None
    assert read_setup_py("a;" * 500 + "a") is None


def test_a_group_is_read_once_however_often_it_is_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_files(tmp_path, dict(PROJECTS["a group in every group"]))
    data = read_toml(scan(root), "pyproject.toml")
    assert data
    reads: Counter[tuple[str, ...]] = Counter()
    get = Toml.get

    def counted(toml: Toml, *path: str) -> object:
        reads[path] += 1
        return get(toml, *path)

    monkeypatch.setattr(Toml, "get", counted)
    assert listed_requirements(data, "group", ["test"] * 100) == ["pytest"]
    assert max(reads.values()) <= 3
