"""The published results of real projects: docs/real-projects.md."""

from __future__ import annotations

import json

from real_projects import PAGE, RESULTS, projects, write

TOLD = json.loads(RESULTS.read_text(encoding="utf-8"))


def test_the_page_has_the_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert write(TOLD, page) == page


def test_what_pip_builds_is_baked_as_init_wrote_it() -> None:
    by_pip = [item for item in TOLD["projects"].values() if "pip_s" in item]
    assert len(by_pip) >= 30
    assert [item["name"] for item in by_pip if "refused" in item or item.get("audit") != "ok"] == []
    assert sum(item["edits"] == 0 for item in by_pip) >= 26
    assert max(item["lines"] for item in by_pip) <= 20


def test_the_results_are_of_listed_projects() -> None:
    listed = {(project.name, project.version) for project in projects().values()}
    assert {(item["name"], item["version"]) for item in TOLD["projects"].values()} <= listed
