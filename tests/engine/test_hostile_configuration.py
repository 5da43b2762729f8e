"""A bake in a folder of somebody else's, with its .git: neither bakery nor buildx runs what that names."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import bakery
from projects import SOURCE, extension
from repositories import git

pytestmark = pytest.mark.engine

RECIPE = """\
name = "tiny"
[matrix]
python = ["3.11"]
[builder]
toolkit = "none"
"""


def test_a_bake_runs_nothing_that_a_checkout_names(tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    project = extension(tmp_path / "project", RECIPE, SOURCE)
    marks = tmp_path / "marks"
    program = tmp_path / "evil"
    program.write_text(f'#!/bin/sh\necho "$*" >> {marks}\nexit 1\n')
    program.chmod(0o755)
    (project / ".gitattributes").write_text("* filter=evil diff=evil\n")
    git(project, "init", "--quiet")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "x")
    head = git(project, "rev-parse", "HEAD")
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "core.fsmonitor": str(program),
        "filter.evil.clean": str(program),
        "diff.external": str(program),
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(project),
        "remote.origin.uploadpack": str(program),
    }.items():
        git(project, "config", key, value)
    (project / "pyproject.toml").touch()
    # buildx asks git for the commit; a missing one is fetched by the program that the remote names.
    shutil.rmtree(project / ".git" / "objects" / head[:2])
    bakery(project, "wheel", environment=engine_environment)
    assert list((project / "dist").glob("*.whl"))
    assert not marks.exists(), marks.read_text()
    git_by_hand = subprocess.run(["git", "-C", project, "show", "HEAD"], check=False, capture_output=True)
    assert git_by_hand.returncode
    assert marks.exists()
