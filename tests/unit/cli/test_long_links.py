"""A commit may have links to names that no file can have; `pathlib` raises an error for them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bakery.cli.app import app

NAMES = (
    "setup.py", "setup.cfg", ".gitignore", ".dockerignore", "dist", "src", "bake", ".gitmodules", "Cargo.toml",
    "a.hcl",
)  # fmt: skip


@pytest.mark.parametrize("in_git", [False, True])
def test_links_to_names_that_are_too_long_are_as_those_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_git: bool
) -> None:
    """Each of them was an internal error of plan, check and lock."""
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[matrix]\npython = ["3.11"]\n')
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    for name in NAMES:
        (tmp_path / name).symlink_to("a" * 300)
    if in_git:
        subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
        (tmp_path / ".git/HEAD").unlink()
        (tmp_path / ".git/HEAD").symlink_to("a" * 300)
    monkeypatch.chdir(tmp_path)
    for words in (["plan"], ["check"], ["init", "--dry-run"]):
        result = CliRunner().invoke(app, words)
        assert "internal error" not in result.output
        assert not isinstance(result.exception, OSError), words
