"""Folders that somebody else prepared: `init` ends soon, reads nothing outside, and fails with an error of its own."""

from __future__ import annotations

import os
import random
import time
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from file_trees import write_files
from init_projects import PROJECTS, made

from bakery.core.errors import BakeryError
from bakery.init import tree as trees
from bakery.init.project import candidates
from bakery.init.tree import scan
from bakery.init.write import MOST_LINES

PROJECT = '[project]\nname = "victim"\nversion = "1"\n'
SLOW_S = 20.0
"""Far more than any of these takes, also on a busy machine."""


def recipe(root: Path) -> str:
    text = made(root).text
    tomllib.loads(text)
    assert text.count("\n") <= MOST_LINES
    return text


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = write_files(tmp_path / "outside", {"secret.cu": "", "inner/kernel.cu": "", "setup.py": "import torch\n"})
    root = write_files(tmp_path / "project", {"pyproject.toml": PROJECT, "victim.c": "", "real/part.cpp": ""})
    (root / "one.cu").symlink_to(outside / "secret.cu")
    (root / "folder").symlink_to(outside, target_is_directory=True)
    (root / "setup.py").symlink_to(outside / "setup.py")
    (root / "inside.cpp").symlink_to("real/part.cpp")
    (root / "loop").symlink_to(".", target_is_directory=True)
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    tree = scan(root)
    assert tree.files == {"pyproject.toml", "victim.c", "real/part.cpp"}
    assert tree.skipped == ("7 links were skipped",)
    assert "CUDA" not in recipe(root)
    assert "torch" not in recipe(root)


def test_a_link_that_is_changed_after_the_scan_is_not_followed(tmp_path: Path) -> None:
    root = write_files(tmp_path / "project", {"pyproject.toml": PROJECT, "a.c": "x"})
    tree = scan(root)
    (tmp_path / "secret").write_text("secret")
    (root / "a.c").unlink()
    (root / "a.c").symlink_to(tmp_path / "secret")
    assert tree.read("a.c") is None


def test_pipes_and_sockets_are_not_opened(tmp_path: Path) -> None:
    root = write_files(tmp_path, {"pyproject.toml": PROJECT, "a.c": ""})
    for name in ("setup.py", "CMakeLists.txt", "docker-bake.hcl", "pipe.cu"):
        os.mkfifo(root / name)
    assert scan(root).files == {"pyproject.toml", "a.c"}
    assert "CUDA" not in recipe(root)


def test_names_with_control_characters_are_skipped(tmp_path: Path) -> None:
    root = write_files(tmp_path, {"pyproject.toml": PROJECT})
    for name in (b"x\n[evil]\ny = 1.cu", b"\x1b[31m.pyx", b"\xff\xfe.cu", "a\u202eb.cu".encode()):
        (Path(os.fsdecode(os.fsencode(root) + b"/" + name))).write_bytes(b"")
    tree = scan(root)
    assert tree.files == {"pyproject.toml"}
    assert tree.skipped == ("4 names with control characters were skipped",)
    recipe(root)


def test_the_number_of_files_and_levels_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MOST_ENTRIES", 50)
    monkeypatch.setattr(trees, "DEEPEST", 5)
    deep = write_files(tmp_path / "deep", {"/".join("d" * 20) + "/x.c": "", "a.c": ""})
    tree = scan(deep)
    assert tree.files == {"a.c"}
    assert tree.skipped == ("1 folders below level 5 were skipped",)
    wide = write_files(tmp_path / "wide", {f"f{number}.c": "" for number in range(80)})
    assert len(scan(wide).files) == 50
    assert scan(wide).skipped == () or "only the first 50" in scan(wide).skipped[-1]


def test_results_and_installed_packages_are_not_listed(tmp_path: Path) -> None:
    names = (
        *("build/x.cu", ".venv/x.cu", "env3/pyvenv.cfg", "env3/x.cu", "node_modules/x.cu", "dist/x.cu"),
        *("rust/Cargo.toml", "rust/target/x.cu", ".git/config", "wheels/x.cu", "src/__pycache__/x.pyc"),
    )
    root = write_files(tmp_path, {**dict.fromkeys(names, ""), "src/wheels/x.c": "", "src/target/x.c": ""})
    assert scan(root).files == {"rust/Cargo.toml", "src/wheels/x.c", "src/target/x.c"}


TEXTS = {
    "nested parentheses": "(" * 50_000,
    "nested lists": "[" * 3_000 + "]" * 3_000,
    "long operators": "x = " + "-" * 100_000 + "1\n",
    "long sums": "x = " + "+".join(["1"] * 100_000),
    "nested calls": "f(" * 2_000 + ")" * 2_000,
    "long lines": "a" * 1_000_000,
    "NUL bytes": "\0" * 10_000,
    "brackets of CMake": "find_package(" * 50_000,
    "blanks": "#" + " " * 400_000,
    "include lines": "# include" + "\t" * 400_000 + "\n#include <" + "a" * 300_000,
    "quotes": "dependency('" * 50_000,
    "interpolation": 'x = "' + "${" * 20_000,
    "heredocs": "x = <<EOT\n" * 5_000,
    "braces": "{" * 40 + "a = 1\n" * 500,
    "stars": "*" * 100_000,
}
FILES = (
    *("setup.py", "setup.cfg", "CMakeLists.txt", "meson.build", "Cargo.toml", "docker-bake.hcl", ".gitmodules"),
    *("src/a.cpp", "src/a.pyx", "Cargo.lock"),
)


@pytest.mark.parametrize("text", TEXTS)
def test_hostile_content(text: str, tmp_path: Path) -> None:
    backend = '[build-system]\nrequires = ["mesonpy"]\nbuild-backend = "mesonpy"\n'
    root = write_files(tmp_path, {"pyproject.toml": backend + PROJECT, **dict.fromkeys(FILES, TEXTS[text])})
    began = time.monotonic()
    recipe(root)
    assert time.monotonic() - began < SLOW_S


@pytest.mark.parametrize("text", [*TEXTS.values(), "a." * 5_000 + "b = 1\n", "[" * 5_000])
def test_hostile_pyproject(text: str, tmp_path: Path) -> None:
    root = write_files(tmp_path, {"pyproject.toml": PROJECT + text})
    began = time.monotonic()
    # A long comment is none.
    with suppress(BakeryError):
        recipe(root)
    assert time.monotonic() - began < SLOW_S


INJECTIONS = (
    'x"\n[evil]\na = "',
    "x\\u0000\\u001b[31m",
    "${EVIL}",
    "$(touch PWNED)`touch PWNED`;touch PWNED",
    "'''\"\"\"",
    "\\u2028\\u202e",
    "x" * 5_000,
    "CON",
    "3.5",
    "-",
    "",
)


@pytest.mark.parametrize("value", INJECTIONS)
def test_texts_of_the_project_cannot_write_keys(value: str, tmp_path: Path) -> None:
    quoted = '"' + value.replace('"', '\\"').replace("\n", "\\n") + '"'
    root = write_files(
        tmp_path,
        {
            "pyproject.toml": f"""[build-system]
requires = [{quoted}, "setuptools"]
build-backend = {quoted}
[project]
name = {quoted}
version = "1"
requires-python = {quoted}
classifiers = [{quoted}]
[project.optional-dependencies]
{quoted} = [{quoted}]
[tool.maturin]
module-name = {quoted}
manifest-path = {quoted}
[tool.scikit-build]
wheel.packages = [{quoted}]
cmake.source-dir = {quoted}
[tool.cibuildwheel]
build = {quoted}
archs = [{quoted}, "x86_64"]
test-extras = [{quoted}]
test-requires = [{quoted}]
test-command = {quoted}
test-sources = [{quoted}]
before-all = {quoted}
before-build = {quoted}
environment = {{ A = {quoted}, {quoted} = "1" }}
config-settings = {{ A = {quoted}, {quoted} = "1" }}
manylinux-x86_64-image = {quoted}
repair-wheel-command = {quoted}
{quoted} = 1
""",
            "a.c": "",
        },
    )
    text = ""
    with suppress(BakeryError):
        text = recipe(root)
    assert set(tomllib.loads(text)) <= {"name", "platforms", "matrix", "builder", "wheel", "test", "variables"}
    assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize("count", [30, pytest.param(300, marks=pytest.mark.proof)])
def test_changed_bytes_of_good_projects(tmp_path: Path, count: int) -> None:
    """Some bytes of projects are changed: a recipe, or an error of bakery."""
    rng = random.Random(14)
    names = sorted(PROJECTS)
    for number in range(count):
        root = tmp_path / str(number)
        for name, text in PROJECTS[names[number % len(names)]].items():
            data = bytearray(text.encode())
            for _ in range(rng.randrange(6) if data else 0):
                at = rng.randrange(len(data))
                data[at : at + rng.randrange(4)] = rng.choice(
                    [b"", b'"', b"[", b"}", b"\n", b"\xff", b"\0", b"$", b"("]
                )
                data = data or bytearray(b" ")
            write_files(root, {name: bytes(data)})
        with suppress(BakeryError):
            if candidates(scan(root)):
                recipe(root)
