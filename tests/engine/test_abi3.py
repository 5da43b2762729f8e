"""Stable ABI: one wheel for several Pythons, built once and tested on each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from abi3_project import project
from command import bakery

pytestmark = pytest.mark.engine


def test_built_once_and_tested_on_all(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    done = bakery(folder, "full")
    (wheel,) = done.wheels
    assert wheel.name.startswith("tiny-1.0-cp311-abi3-manylinux")
    assert set(done.results()) == {"wheel-cp311", "test-cp311", "test-cp313"}
    said = {name: re.findall(r"(?m)\b(\d+) (stamp \S+)$", done.log(name)) for name in ("test-cp311", "test-cp313")}
    ((old, first),), ((new, second),) = said.values()
    assert (old, new) == ("11", "13")
    assert first == second
    # The other cell's name stands for the wheel that it shares.
    again = bakery(folder, "wheel", "--only", "cp313")
    assert [path.name for path in again.wheels] == [wheel.name]
    assert set(again.results()) == {"wheel-cp311"}


@pytest.mark.proof
def test_a_wheel_for_one_python_only(tmp_path: Path) -> None:
    done = bakery(project(tmp_path / "project", ""), "wheel", code=8)
    said = " ".join(done.err.split())
    assert "has ABI tag cp311, expected a stable-ABI wheel" in said
    assert "or remove wheel.abi3 from the recipe" in said
    assert not list((tmp_path / "project" / "dist").glob("*.whl"))
