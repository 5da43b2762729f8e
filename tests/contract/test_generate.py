"""Where `generate` writes a workflow, and what the workflow knows of its repository."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from file_trees import write_files
from repositories import git
from ruamel.yaml import YAML
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.core.errors import DriftError
from bakery.resolve.repository import repository_of

RECIPE = 'name = "{name}"\n[ci]\ninstall = ["wheel-bakery==1.0"]\n'


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    monkeypatch.chdir(folder)
    return folder


def project(folder: Path, name: str = "tiny", file: str = "bakery.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\nversion = "1.0"\n')
    (folder / file).write_text(RECIPE.format(name=name))
    return folder


def generate(*words: str) -> list[str]:
    result = CliRunner().invoke(app, ["generate", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output.splitlines()


def workflows(top: Path) -> Mapping[str, Any]:
    files = sorted(top.rglob("*.yml"))
    assert {file.parent for file in files} <= {top / ".github" / "workflows"}
    return {file.name: YAML(typ="safe").load(file.read_text()) for file in files}


def runs(job: Mapping[str, Any]) -> str:
    return str(job.get("defaults", {}).get("run", {}).get("working-directory", ""))


def test_a_project_at_the_top_has_neither_folder_nor_paths(top: Path) -> None:
    project(top)
    assert "wrote .github/workflows/bakery-tiny.yml" in generate()
    (workflow,) = workflows(top).values()
    assert workflow["name"] == "wheels of tiny"
    assert not any(runs(job) for job in workflow["jobs"].values())
    assert "paths" not in workflow["on"]["push"]
    assert workflow["on"]["pull_request"] is None


@pytest.mark.parametrize("words", [("-r", "pkg/one"), ("-r", "pkg/one", "--to", "."), ("-r", "pkg/one/bakery.toml")])
def test_below_the_top_the_workflow_is_at_the_top_with_its_folder(top: Path, words: tuple[str, ...]) -> None:
    project(top / "pkg" / "one")
    generate(*words)
    ((name, workflow),) = workflows(top).items()
    assert name == "bakery-tiny.pkg.one.yml"
    assert workflow["name"] == "wheels of tiny in pkg/one"
    paths = ["pkg/one/**", ".github/workflows/bakery-tiny.pkg.one.yml"]
    assert workflow["on"]["push"]["paths"] == workflow["on"]["pull_request"]["paths"] == paths
    jobs = workflow["jobs"]
    # Only jobs that check the repository out have the folder.
    assert {job: runs(jobs[job]) for job in jobs} == {"bake": "pkg/one", "wheels": "pkg/one", "attest": ""}
    steps = {step["name"]: step for job in jobs.values() for step in job["steps"]}
    assert steps["Download the wheels of all jobs"]["with"]["path"] == "pkg/one/dist"
    assert steps["Verify the wheels"]["env"]["OUTPUT"] == "dist"
    assert steps["Attest"]["with"]["subject-path"] == "pkg/one/dist/*.whl"
    assert steps["Bake, audit and test"]["env"]["BAKERY_CACHE_KEY"] == "${{ github.repository }}/pkg.one"
    assert workflow["env"] == {"BAKERY_RECIPE": "tiny"}
    generate(*words, "--check")
    (top / ".github" / "workflows" / name).write_text("")
    with pytest.raises(DriftError, match="differ"):
        generate(*words, "--check")


def test_projects_of_one_recipe_name_have_workflows_of_their_own(top: Path) -> None:
    for folder in ("a", "b/c", "b.c", "b-c", "ü v"):
        project(top / folder)
        generate("-r", folder if "/" in folder else f"./{folder}")
    project(top)
    generate()
    made = workflows(top)
    assert len(made) == len({workflow["name"] for workflow in made.values()}) == 6
    assert {runs(workflow["jobs"]["bake"]) for workflow in made.values()} == {"", "a", "b/c", "b.c", "b-c", "ü v"}


def test_a_recipe_that_only_its_file_finds(top: Path) -> None:
    project(top / "recipes", file="gpu.toml")
    generate("-r", "recipes/gpu.toml", "--to", ".")
    ((_, workflow),) = workflows(top).items()
    assert workflow["env"] == {"BAKERY_RECIPE": "gpu.toml"}


def test_a_workflow_that_github_does_not_read_is_named(top: Path) -> None:
    old = project(top / "sub") / ".github" / "workflows" / "bakery-tiny.yml"
    old.parent.mkdir(parents=True)
    old.write_text("")
    assert any("remove sub/.github/workflows/bakery-tiny.yml" in line for line in generate("-r", "sub"))


def test_a_folder_outside_the_repository_gets_the_workflow_too(top: Path, tmp_path: Path) -> None:
    project(top / "sub")
    generate("-r", "sub", "--to", str(tmp_path / "out"))
    assert workflows(top) == {}
    assert set(workflows(tmp_path / "out")) == {"bakery-tiny.sub.yml"}


@pytest.mark.parametrize(
    ("files", "submodules", "lfs"),
    [
        ({}, False, False),
        ({".gitmodules": '[submodule "x"]\n\tpath = extern/x\n\turl = ../x\n'}, False, False),
        ({".gitmodules": '[submodule "x"]\n\tpath = "sub/extern x"\n\turl = ../x\n'}, True, False),
        ({".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"}, False, True),
        ({".gitattributes": "# *.bin filter=lfs\n*.txt text\n*.x filter=lfsx\n"}, False, False),
        ({"sub/.gitattributes": "*.bin\tfilter=lfs\n"}, False, True),
        ({"sub/data/.gitattributes": "*.bin filter=lfs\n"}, False, True),
        ({"other/.gitattributes": "*.bin filter=lfs\n"}, False, False),
    ],
)
def test_what_a_checkout_must_be_asked_for(top: Path, files: Mapping[str, str], submodules: bool, lfs: bool) -> None:
    write_files(top, files)
    project(top / "sub")
    place, found = repository_of(top / "sub")
    assert (place, found.folder, found.submodules, found.lfs) == (top, "sub", submodules, lfs)
    generate("-r", "sub")
    (workflow,) = workflows(top).values()
    for job in ("bake", "wheels"):
        (fields,) = (step["with"] for step in workflow["jobs"][job]["steps"] if step["name"] == "Check out")
        assert fields.get("submodules") == ("recursive" if submodules else None)
        assert fields.get("lfs", False) is lfs
        assert (fields["fetch-depth"], fields["filter"]) == (0, "blob:none")


def test_all_submodules_are_those_of_a_project_at_the_top(top: Path) -> None:
    (top / ".gitmodules").write_text('[submodule "x"]\n  path = extern/x\n  url = ../x\n')
    assert repository_of(top)[1].submodules


def test_a_source_that_is_fetched_needs_no_history(top: Path) -> None:
    (top / "bakery.toml").write_text(RECIPE.format(name="tiny") + '[source]\nsdist = "tiny==1.0"\n')
    generate()
    (workflow,) = workflows(top).values()
    (fields,) = (step["with"] for step in workflow["jobs"]["bake"]["steps"] if step["name"] == "Check out")
    assert fields == {"persist-credentials": False}


def test_without_a_repository_the_project_is_the_top(tmp_path: Path) -> None:
    assert repository_of(tmp_path)[0] == tmp_path.resolve()
