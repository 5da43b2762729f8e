"""The page of seven tasks: its figures are those of its files, and Bakery's edits work."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from comparison import FOLDER, PAGE, ROOT, TASKS, TOOLS, counts, page
from typer.testing import CliRunner

from bakery.cli.app import app

Golden = Callable[[Path, str], None]


def test_the_table_has_the_figures_of_the_files(golden: Golden) -> None:
    golden(PAGE, page())
    folders = {str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*")}
    assert folders == {f"{task}/{tool}" for task in TASKS for tool in TOOLS}


@pytest.mark.parametrize("task", TASKS)
def test_no_tool_needs_fewer_lines(task: str) -> None:
    lines = {tool: sum(counts(task, tool)) for tool in TOOLS}
    assert lines["bakery"] == min(lines.values()), lines


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the project after the first command of the task "start"."""
    folder = tmp_path_factory.mktemp("comparison") / "project"
    ignored = shutil.ignore_patterns("bakery.*", ".bakery", "dist", "build")
    shutil.copytree(ROOT / "examples" / "cuda", folder, ignore=ignored)
    # As on a machine that reaches the registry.
    with patch("bakery.core.connections.answers", return_value=True):
        invoke(folder, "init")
    return folder


def invoke(folder: Path, *words: str) -> str:
    done = CliRunner().invoke(app, ["-C", str(folder), *words])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    ("task", "cells"), [("start", 5), ("add-cuda", 10), ("add-python", 6), ("release", 5)], ids=str
)
def test_bakerys_edits_make_a_recipe(started: Path, tmp_path: Path, task: str, cells: int) -> None:
    folder = Path(shutil.copytree(started, tmp_path / "project"))
    edit = FOLDER / task / "bakery" / "edit.diff"
    if edit.exists():
        subprocess.run(["git", "apply", str(edit)], cwd=folder, check=True)
    assert f"ok, {cells} cells" in invoke(folder, "check")
