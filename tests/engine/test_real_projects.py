"""Real projects: what pip builds is baked from what ``wheel-bakery init`` wrote, and is the wheel of pip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from real_projects import measure, projects
from real_projects_page import unexplained

pytestmark = pytest.mark.engine

MOST_LINES = 20

HALVES = [list(projects())[0::2], list(projects())[1::2]]
"""The projects in two proofs: one alone would take longer than 20 minutes."""


@pytest.mark.proof
@pytest.mark.parametrize("name", HALVES[0])
def test_the_wheel_of_a_project_is_that_of_pip(
    name: str, debian: str, engine_environment: Mapping[str, str], tmp_path: Path
) -> None:
    assert debian
    is_that_of_pip(name, engine_environment, tmp_path)


@pytest.mark.proof
@pytest.mark.parametrize("name", HALVES[1])
def test_the_wheel_of_another_project_is_that_of_pip(
    name: str, debian: str, engine_environment: Mapping[str, str], tmp_path: Path
) -> None:
    assert debian
    is_that_of_pip(name, engine_environment, tmp_path)


def is_that_of_pip(name: str, environment: Mapping[str, str], folder: Path) -> None:
    """Assert that a project's wheel is that of pip, but for what has a reason, and that it can be imported."""
    result = asdict(measure(projects()[name], environment, folder))
    if not result["pip_refused"]:
        assert unexplained(result) == []
        # A wheel is there only if its audit found nothing.
        assert (result["refused"], result["tested"]) == ("", "imported")
        assert result["lines"] <= MOST_LINES
