"""Real projects of the package index: what pip builds is baked from what ``wheel-bakery init`` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from command import bakery
from real_projects import cell, fetch, measure, only_imports, projects, recipe

pytestmark = pytest.mark.engine

SAMPLE = ("markupsafe", "netifaces")
"""A pyproject.toml, and a setup.py alone: seconds each."""

MOST_LINES = 20


@pytest.mark.parametrize("name", SAMPLE)
def test_a_project_is_baked_as_init_wrote_it(name: str, debian: str, tmp_path: Path) -> None:
    assert debian
    project = projects()[name]
    assert not project.edits
    folder = fetch(project, tmp_path)
    assert len(recipe(project, folder).splitlines()) <= MOST_LINES
    only_imports(folder)
    # A wheel is there only if its audit found nothing, and its test passed.
    assert len(bakery(folder, "full", "--only", cell(folder)["id"]).wheels) == 1


@pytest.mark.proof
@pytest.mark.parametrize("name", [name for name in projects() if name not in SAMPLE])
def test_what_pip_builds_is_baked(
    name: str, debian: str, engine_environment: Mapping[str, str], tmp_path: Path
) -> None:
    assert debian
    result = measure(projects()[name], engine_environment, tmp_path)
    if not result.pip_refused:
        assert (result.refused, result.audit, result.tested) == ("", "ok", "imported")
        assert result.lines <= MOST_LINES
