"""What commands add to the summary of a job of GitHub Actions."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner
from wheels import write_wheel

from bakery.cli.app import app

RECIPE = 'name = "demo"\n[wheel]\nmax-growth = "10 %"\n[builder]\nbase = "manylinux_2_28"\n'


def test_verify_adds_sizes_and_growth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bakery.toml").write_text(RECIPE)
    for name in ("dist", "before"):
        (tmp_path / name).mkdir()
        write_wheel(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    said = CliRunner().invoke(app, ["verify", "dist", "--baseline", "before"])
    assert said.exit_code == 0, said.output
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("- 1 wheel: complete and as planned\n- demo: ")
    assert "- 1 of 1 wheels compared with the release before\n" in summary
    assert [line.removeprefix("- ") for line in summary.splitlines()] == said.stdout.splitlines()


def test_a_summary_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bakery.toml").write_text(RECIPE)
    (tmp_path / "dist").mkdir()
    write_wheel(tmp_path / "dist")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none" / "summary.md"))
    said = CliRunner().invoke(app, ["verify", "dist"])
    assert said.exit_code == 0
    assert "cannot write the step summary" in said.stderr
