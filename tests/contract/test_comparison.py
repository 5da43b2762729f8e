"""The files of other tools in docs/comparison: each tool reads its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from buildx import Buildx
from comparison import FOLDER
from ruamel.yaml import YAML

EDITED = ("start", "add-cuda", "add-python")


def files(task: str, tool: str, folder: Path) -> Path:
    """Write what a maintainer has after a task."""
    shutil.copytree(FOLDER / "start" / tool, folder)
    edit = FOLDER / task / tool / "edit.diff"
    if edit.exists():
        subprocess.run(["git", "apply", str(edit)], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize(("task", "targets"), [("start", 2), ("add-cuda", 4), ("add-python", 3)])
def test_bake_reads_its_file(task: str, targets: int, tmp_path: Path, buildx: Buildx) -> None:
    folder = files(task, "bake", tmp_path / "project")
    done = Buildx(buildx.environment, folder).call("bake", "--print")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)["target"]
    assert len(printed) == targets
    assert len({str(target["output"]) for target in printed.values()}) == (2 if task == "add-cuda" else 1)


@pytest.mark.parametrize(("task", "builds"), [("start", 2), ("add-python", 3)])
def test_cibuildwheel_reads_its_configuration(task: str, builds: int, tmp_path: Path) -> None:
    folder = files(task, "cibuildwheel", tmp_path / "project")
    command = [sys.executable, "-m", "cibuildwheel", "--platform", "linux", "--print-build-identifiers"]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len([name for name in done.stdout.split() if "manylinux" in name]) == builds


@pytest.mark.parametrize("task", EDITED)
def test_edits_for_posit_bakery_apply(task: str, tmp_path: Path) -> None:
    folder = files(task, "posit-bakery", tmp_path / "project")
    matrix = YAML(typ="safe").load(folder / "bakery.yaml")["images"][0]["matrix"]
    assert "python" in matrix["values"]


def test_shells_and_yaml_read_the_rest() -> None:
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix == ".sh":
            subprocess.run(["sh", "-n", str(path)], check=True)
        if path.suffix == ".yml":
            assert set(YAML(typ="safe").load(path)["jobs"]) == {"build", "publish"}
