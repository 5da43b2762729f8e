"""What is a change of a build context, and what is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bakery.core.source_manifest import SourceManifest

IGNORE = (
    ".git",
    "**/.bakery",
    "**/__pycache__",
    "**/*.egg-info",
    "dist",
    "build/lib",
    "docs/*",
    "!docs/keep.md",
    "a?c",
    "x[0-9]",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("src/core.cpp", "src/deep/mod.py", "docs/keep.md", "setup.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("setup.py")
    return tmp_path


def digest(tree: Path, *sources: str) -> str:
    return SourceManifest.read(tree, sources or (".",), IGNORE).digest


def add(name: str) -> Callable[[Path], object]:
    def change(tree: Path) -> None:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("new")

    return change


CHANGES: dict[str, Callable[[Path], object]] = {
    "content of the same size": lambda tree: (tree / "setup.py").write_text("SETUP.py"),
    "a new file": add("src/new.py"),
    "a removed file": lambda tree: (tree / "src/deep/mod.py").unlink(),
    "another name": lambda tree: (tree / "setup.py").rename(tree / "setup2.py"),
    "a mode": lambda tree: (tree / "setup.py").chmod(0o755),
    "a link's target": lambda tree: ((tree / "link").unlink(), (tree / "link").symlink_to("src")),
    "what an exception brings back": lambda tree: (tree / "docs/keep.md").write_text("other"),
    "a name like an ignored one": add("src/dist/x"),
    "a name that is no UTF-8": lambda tree: (Path(os.fsdecode(os.fsencode(tree) + b"/\xff"))).write_text(""),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes(tree: Path, name: str) -> None:
    before = digest(tree)
    CHANGES[name](tree)
    assert digest(tree) != before


@pytest.mark.parametrize(
    "name",
    [
        "dist/a.whl",
        ".git/HEAD",
        "src/deep/__pycache__/x.pyc",
        ".bakery/runs/x",
        "p.egg-info/PKG-INFO",
        "build/lib/x",
        "docs/other.md",
        "abc",
        "x7",
    ],
)
def test_what_is_ignored_changes_nothing(tree: Path, name: str) -> None:
    before = digest(tree)
    add(name)(tree)
    os.utime(tree / "setup.py", (1, 1))
    assert digest(tree) == before


def test_only_what_steps_read_counts(tree: Path) -> None:
    before = digest(tree, "src/deep", "missing")
    add("src/new.py")(tree)
    assert digest(tree, "src/deep", "missing") == before
    add("src/deep/new.py")(tree)
    assert digest(tree, "src/deep", "missing") != before
