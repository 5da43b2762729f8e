"""Cells that are built side by side share the compilers' slots of the engine."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from command import bakery, digests
from compilers import compiled, most_at_once, slow_project, watched

from bakery.toolchains.programs.slot import UNKNOWN_MB

pytestmark = pytest.mark.engine

CELL = "cp311-flavourf0"


@pytest.mark.proof
def test_never_more_compilers_than_slots(tmp_path: Path) -> None:
    token = f"t{uuid.uuid4().hex}"
    project = slow_project(tmp_path / "one", token, cells=3, files=2, rounds=200_000, jobs=4)
    with watched(token) as seen:
        done = bakery(project, "wheel")
    logs = [compiled(done.log(name)) for name in done.results()]
    runs = [run for log in logs for run in log]
    slots = os.cpu_count() or 1
    assert [len(log) for log in logs] == [4, 4, 4]
    assert all(0 <= run.slot < slots for run in runs)
    assert most_at_once(runs) <= slots
    assert 1 <= seen.most <= slots
    # The cells took turns: none waited for the end of another.
    assert max(log[0].start for log in logs) < min(log[-1].end for log in logs)
    # Of three links, the last one starts when the peak of another is known.
    assert min(log[-1].expected for log in logs) < UNKNOWN_MB
    # The wheel is the one that the compiler makes without all this.
    recipe = project / "bakery.toml"
    recipe.write_text(recipe.read_text().replace("[builder]", "[builder]\ncompiler-cache = false"))
    alone = tmp_path / "alone"
    bakery(project, "wheel", "--only", CELL, "--output", str(alone))
    assert digests(alone).items() <= digests(project / "dist").items()
