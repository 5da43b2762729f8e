"""Programs that neither wait nor print, and never end: their seconds of a processor are counted."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from odd_repositories import Repository

from bakery.core import child, git, git_command
from bakery.core.environment import for_tool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems limit the elapsed time only")


def test_a_program_may_be_busy_for_some_seconds() -> None:
    ended = child.run(["sh", "-c", "while :; do :; done"], env=for_tool(), seconds=60, most=100, busy=1)
    assert ended.is_late


def test_a_commit_of_too_many_empty_folders_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_command, "_BUSY_S", 1)
    monkeypatch.setattr(git_command, "_SILENT", set())
    repository = Repository(tmp_path / "project")
    commit = repository.bomb(repository.tree())
    began = time.monotonic()
    for _ in range(10):
        assert git.differing(repository.top, commit) is None
    assert time.monotonic() - began < git_command._ANSWER_S
