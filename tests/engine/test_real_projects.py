"""Real projects: what pip builds is baked from what ``wheel-bakery init`` wrote, and is the wheel of pip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from real_projects import PACKAGES, Project, backend_packages, measure, projects
from real_projects_page import unexplained

pytestmark = pytest.mark.engine

SAMPLE = ("netifaces",)
"""It has a setup.py alone; projects with a pyproject.toml are those of most other tests."""

MOST_LINES = 20


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.proof] * (name not in SAMPLE)) for name in projects()]
)
def test_the_wheel_of_a_project_is_that_of_pip(
    name: str, debian: str, engine_environment: Mapping[str, str], tmp_path: Path
) -> None:
    assert debian
    project = projects()[name]
    assert name not in SAMPLE or not project.edits
    told = asdict(measure(project, engine_environment, tmp_path))
    if not told["pip_refused"]:
        assert unexplained(told) == []
        # A wheel is there only if its audit found nothing.
        assert (told["refused"], told["tested"]) == ("", "imported")
        assert told["lines"] <= MOST_LINES


@pytest.mark.proof
@pytest.mark.skipif(not backend_packages(), reason=f"{PACKAGES} names no folder with test packages of build backends")
@pytest.mark.parametrize("package", backend_packages().values(), ids=lambda package: str(package.key))
def test_the_wheel_of_a_test_package_is_that_of_pip(
    package: Project, debian: str, engine_environment: Mapping[str, str], tmp_path: Path
) -> None:
    assert debian
    assert unexplained(asdict(measure(package, engine_environment, tmp_path))) == []
