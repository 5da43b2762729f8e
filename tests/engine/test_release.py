"""A release of a project below the top of its repository, by its workflow, from a git server: version, submodule, date.

The version is that of pyproject.toml, or with setuptools-scm that of the tag.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from actions import Runner
from command import bakery, digests
from gitserver import served
from projects import SOURCE, extension
from repositories import commit, git
from runs import runs_of

from bakery.core.git import committed

pytestmark = pytest.mark.engine

RECIPE = """\
name = "tiny"
[matrix]
python = ["3.11"]
[builder]
toolkit = "none"
[test]
imports = ["tiny"]
[ci]
cache = "none"
github-release = false
"""

SOURCE_AT, AFTER = 1_750_000_000, 1_760_000_000
"""The commit that last changed the source, and one outside of its folder, in seconds since 1970."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Give a checkout with submodules, and the URL of a server that has it."""
    folder = tmp_path_factory.mktemp("release")
    (folder / "served").mkdir()
    with served(folder / "served") as url:
        for name in ("part", "work"):
            (folder / name).mkdir()
            git(folder / name, "-c", "init.defaultBranch=main", "init", "--quiet")
        # The extension is compiled with a header of the submodule.
        commit(folder / "part", SOURCE_AT, part_h="#define PART 1\n")
        git(folder, "clone", "--quiet", "--bare", "part", "served/part.git")
        work = folder / "work"
        project = extension(work / "pkg" / "tiny", RECIPE, f'#include "../part/part.h"\n#if PART\n{SOURCE}\n#endif\n')
        git(work, "submodule", "--quiet", "add", f"{url}/part.git", "pkg/tiny/part")
        bakery(project, "generate")
        commit(work, SOURCE_AT, README="one\n")
        commit(work, AFTER, README="two\n")
        for tag in ("v1.0", "v1.1", "other-v1.0"):
            git(work, "tag", tag)
        git(folder, "clone", "--quiet", "--bare", "work", "served/work.git")
        git(folder / "served" / "work.git", "config", "uploadpack.allowFilter", "true")
        yield work, f"{url}/work.git"


def released(
    repository: tuple[Path, str], folder: Path, environment: Mapping[str, str], tag: str, edit: str = ""
) -> Runner:
    """Run the workflow for a tag; ``edit``: lines of the checkout step that are left out."""
    work, url = repository
    folder.mkdir(parents=True)
    github = {"run_attempt": 1, "event_name": "push", "ref": f"refs/tags/{tag}", "ref_name": tag, "ref_type": "tag"}
    runner = Runner(work, folder, {**os.environ, **environment, "NO_PROXY": "127.0.0.1"}, github, url=url)
    (workflow,) = (work / ".github" / "workflows").iterdir()
    runner.run(re.sub(edit, "", workflow.read_text()) if edit else workflow.read_text())
    return runner


def epoch(runner: Runner) -> str:
    (record,) = (runner.folder / "artifacts" / "wheels-1" / ".provenance").glob("*.provenance.json")
    return re.findall(r'"SOURCE_DATE_EPOCH": "(\d+)"', record.read_text())[0]


@pytest.mark.proof
def test_a_release_has_the_submodule_and_the_date_of_a_full_clone(
    repository: tuple[Path, str], tmp_path: Path, engine_environment: Mapping[str, str]
) -> None:
    runner = released(repository, tmp_path / "right", engine_environment, "v1.0")
    assert [(done.step, done.out[-3000:]) for done in runner.ran if done.code] == []
    assert "actions/attest-build-provenance" in runner.used
    # A partial clone has the commits and folders that the date is read from.
    assert epoch(runner) == str(committed(repository[0] / "pkg" / "tiny")) == str(SOURCE_AT)
    checkout = runner.place("bake", "cp311")
    assert git(checkout, "rev-parse", "--is-shallow-repository") == "false"
    assert "?" in git(checkout, "rev-list", "--objects", "--all", "--missing=print")


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        ("v1.1", "tag v1.1 says 1.1, but the version is 1.0"),
        pytest.param("other-v1.0", "names no version of tiny", marks=pytest.mark.proof),
    ],
)
def test_a_wrong_tag_is_refused_before_anything_is_attested(
    repository: tuple[Path, str], tmp_path: Path, engine_environment: Mapping[str, str], tag: str, said: str
) -> None:
    runner = released(repository, tmp_path / "wrong", engine_environment, tag)
    (failed,) = (done for done in runner.ran if done.code)
    assert (failed.job, failed.step, failed.code) == ("wheels", "Verify the wheels", 8)
    assert said in failed.out
    assert runner.failed == {"wheels", "attest"}
    assert "actions/attest-build-provenance" not in runner.used


@pytest.mark.proof
def test_without_history_the_date_would_be_another(
    repository: tuple[Path, str], tmp_path: Path, engine_environment: Mapping[str, str]
) -> None:
    """What the checkout step asks for is needed: a check of the two tests above."""
    runner = released(repository, tmp_path / "shallow", engine_environment, "v1.0", r" +(?:fetch-depth|filter): .*\n")
    assert epoch(runner) != str(SOURCE_AT)
    runner = released(repository, tmp_path / "bare", engine_environment, "v1.0", r" +submodules: .*\n")
    assert "bake" in runner.failed


@pytest.mark.proof
def test_a_wheel_of_another_version_than_the_tag_of_its_commit_is_a_warning(
    repository: tuple[Path, str], tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--recurse-submodules", repository[1], "clone")
    git(clone, "tag", "--delete", "v1.0")
    done = bakery(clone / "pkg" / "tiny", "wheel")
    said = "tiny-1.0-cp311"
    assert f"warning: {said}" in done.err
    assert "but the commit has the tag v1.1" in done.err
    done = bakery(clone / "pkg" / "tiny", "wheel", "--if-changed")
    assert "up to date" in done.err
    assert "but the commit has the tag v1.1" in done.err
    git(clone, "tag", "v1.0")
    assert "has the tag" not in bakery(clone / "pkg" / "tiny", "wheel", "--if-changed").err
    report = max(runs_of(clone / "pkg" / "tiny").glob("*/report.json"))
    assert json.loads(report.read_text())["warnings"] == []


SCM = """\
[build-system]
requires = ["setuptools>=77", "setuptools-scm>=8"]
build-backend = "setuptools.build_meta"
[project]
name = "tiny"
dynamic = ["version"]
[tool.setuptools_scm]
"""


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Give a locked project of setuptools-scm with a submodule, as `repository` does: v1.3.0, and a commit after it."""
    folder = tmp_path_factory.mktemp("tagged")
    (folder / "served").mkdir()
    with served(folder / "served") as url:
        (folder / "part").mkdir()
        git(folder / "part", "init", "--quiet")
        commit(folder / "part", SOURCE_AT, part_h="#define PART 1\n")
        git(folder, "clone", "--quiet", "--bare", "part", "served/part.git")
        work = extension(folder / "work", RECIPE, f'#include "../part/part.h"\n#if PART\n{SOURCE}\n#endif\n')
        (work / "pyproject.toml").write_text(SCM)
        (work / ".gitignore").write_text("/dist/\n")
        git(work, "init", "--quiet")
        git(work, "submodule", "--quiet", "add", f"{url}/part.git", "part")
        commit(work, SOURCE_AT, README="one\n")
        git(work, "tag", "v1.2.0")
        bakery(work, "lock")
        bakery(work, "generate")
        commit(work, AFTER, README="two\n")
        git(work, "tag", "--annotate", "--message", "x", "v1.3.0", at=AFTER)
        git(folder, "clone", "--quiet", "--bare", "work", "served/work.git")
        git(folder / "served" / "work.git", "config", "uploadpack.allowFilter", "true")
        yield work, f"{url}/work.git"


@pytest.mark.proof
def test_a_release_of_a_tag_is_what_a_local_locked_wheel_is(
    tagged: tuple[Path, str], tmp_path: Path, engine_environment: Mapping[str, str]
) -> None:
    runner = released(tagged, tmp_path / "right", engine_environment, "v1.3.0")
    assert [(done.step, done.out[-3000:]) for done in runner.ran if done.code] == []
    assert "actions/attest-build-provenance" in runner.used
    names = digests(runner.artifacts / "wheels-1")
    assert [name.split("-")[1] for name in names] == ["1.3.0"]
    bakery(tagged[0], "wheel", "--locked")
    assert digests(tagged[0] / "dist") == names


@pytest.mark.proof
def test_a_version_that_the_recipe_sets_is_refused_for_another_tag(
    tagged: tuple[Path, str], tmp_path: Path, engine_environment: Mapping[str, str]
) -> None:
    """What a release may not do: publish a version that somebody once wrote down."""
    work, url = tagged
    git(tmp_path, "clone", "--quiet", "--recurse-submodules", url, "clone")
    recipe = tmp_path / "clone" / "bakery.toml"
    text = recipe.read_text()
    assert "[builder]\n" in text
    recipe.write_text(
        text.replace("[builder]\n", '[builder]\nenvironment = { SETUPTOOLS_SCM_PRETEND_VERSION = "1.2.0" }\n')
    )
    bakery(tmp_path / "clone", "lock")
    bakery(tmp_path / "clone", "generate")
    commit(tmp_path / "clone", AFTER + 1, README="three\n")
    git(tmp_path / "clone", "tag", "v1.4.0")
    git(tmp_path / "clone", "push", "--quiet", str(work.parent / "served" / "work.git"), "v1.4.0")
    runner = released((tmp_path / "clone", url), tmp_path / "wrong", engine_environment, "v1.4.0")
    (failed,) = (done for done in runner.ran if done.code)
    assert (failed.job, failed.step, failed.code) == ("wheels", "Verify the wheels", 8)
    assert "tag v1.4.0 says 1.4.0, but the version is 1.2.0" in failed.out
    assert "actions/attest-build-provenance" not in runner.used
