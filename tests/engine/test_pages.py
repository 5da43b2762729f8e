"""The commands of the how-tos, run in order in a copy of an example, as a reader would. `test_newcomer` has the
tutorials, which bring their own projects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest
from pages import ROOT, blocks

PAGES = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "how-to").glob("*.md"))
WITHOUT_ENGINE = {"how-to/add-cuda.md", "how-to/add-python.md", "how-to/audit.md"}
SLOW = {"how-to/debug.md", "how-to/change.md", "how-to/release.md"}
CUDA = {"how-to/add-cuda.md"}

PRINTED = {
    "how-to/add-cuda.md": "cu128",
    "how-to/add-python.md": "cp314",
    "how-to/audit.md": "manylinux",
    "how-to/change.md": "strip",
    "how-to/debug.md": "exit code 7",
    "how-to/release.md": "complete and as planned",
}
"""Page → what its commands print, among the rest."""


def run_page(page: str, folder: Path, environment: Mapping[str, str]) -> str:
    project = folder / "project"
    built = shutil.ignore_patterns("dist", ".bakery", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "examples" / ("cuda" if page in CUDA else "cpp"), project, ignore=built)
    scripts = blocks(page, "sh")
    assert scripts
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(scripts)],
        cwd=project,
        env={
            **environment,
            "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
            "BAKERY_PROGRESS": "plain",
            "COLUMNS": "200",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.mark.parametrize("page", sorted(WITHOUT_ENGINE))
def test_commands_without_an_engine(page: str, tmp_path: Path) -> None:
    assert PRINTED[page] in run_page(page, tmp_path, os.environ)


@pytest.mark.engine
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.proof if page in SLOW else ())
        for page in PAGES
        if page not in WITHOUT_ENGINE
    ],
)
def test_commands_that_build(page: str, tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    assert PRINTED[page] in run_page(page, tmp_path, engine_environment)
