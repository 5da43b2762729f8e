"""The published results of real projects: docs/real-projects.md."""

from __future__ import annotations

import json

from real_projects import cuda_projects, projects
from real_projects_page import CUDA_PAGE, PAGE, RESULTS, cuda_page_with, page_with, unexplained

TOLD = json.loads(RESULTS.read_text(encoding="utf-8"))
ALL = TOLD["projects"].values()
OF_INDEX = [item for item in ALL if "/" not in item["name"]]


def test_the_page_has_the_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page_with(TOLD, page) == page


def test_the_wheels_are_those_of_pip() -> None:
    assert {item["name"]: unexplained(item) for item in ALL if unexplained(item)} == {}
    assert sum("differences" in item for item in ALL) >= 90


def test_what_pip_builds_is_baked_as_init_wrote_it() -> None:
    by_pip = [item for item in OF_INDEX if "pip_refused" not in item]
    assert len(by_pip) >= 40
    assert [item["name"] for item in by_pip if "refused" in item] == []
    assert sum(item["edits"] == 0 for item in by_pip) >= 40
    assert max(item["lines"] for item in by_pip) <= 20


def test_the_results_are_of_listed_projects() -> None:
    listed = {(project.key, project.version) for project in projects().values()}
    assert {(item["name"], item["version"]) for item in OF_INDEX} <= listed


def test_the_page_of_cuda_projects_has_the_list() -> None:
    page = CUDA_PAGE.read_text(encoding="utf-8")
    assert cuda_page_with(page) == page


def test_a_recipe_of_a_cuda_project_is_right_or_says_what_is_not() -> None:
    assert [name for name, item in cuda_projects().items() if item.verdict != "right" and not item.says] == []
