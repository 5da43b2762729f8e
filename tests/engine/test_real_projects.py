"""Real projects of the package index: what pip builds is baked from what ``wheel-bakery init`` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from real_projects import Result, measure, projects

pytestmark = pytest.mark.engine

SAMPLE = ("markupsafe", "frozenlist", "netifaces")
"""C, Cython with an in-tree backend, and a setup.py alone: seconds each."""

MOST_LINES = 20


def baked(name: str, environment: Mapping[str, str], folder: Path) -> Result:
    """Measure a project, which must be baked, audited and tested."""
    result = measure(projects()[name], environment, folder)
    assert not result.refused or result.pip_refused, result.refused
    if not result.refused:
        assert result.audit == "ok"
        assert result.tested == "imported", result.tested
    assert result.lines <= MOST_LINES
    return result


@pytest.mark.parametrize("name", SAMPLE)
def test_a_project_is_baked_as_init_wrote_it(
    name: str, debian: str, engine_environment: Mapping[str, str], tmp_path: Path
) -> None:
    assert debian
    result = baked(name, engine_environment, tmp_path)
    assert (result.edits, result.pip_refused, result.refused) == (0, "", "")


@pytest.mark.proof
@pytest.mark.parametrize("name", [name for name in projects() if name not in SAMPLE])
def test_every_project_that_pip_builds_is_baked(
    name: str, debian: str, engine_environment: Mapping[str, str], tmp_path: Path
) -> None:
    assert debian
    baked(name, engine_environment, tmp_path)
