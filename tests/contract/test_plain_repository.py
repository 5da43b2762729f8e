"""The description of a git directory that a plain bake sends: what git cannot read is told, never taken for no commits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from helpers.repositories import commit, git

from bakery.toolchains.programs import repository

SENT = ("HEAD", "index", "packed-refs", "shallow", "commondir", "refs", "objects")


def sent(directory: Path, given: Path, name: str) -> None:
    """Copy what a plain bake sends of a git directory."""
    (given / name).mkdir(parents=True)
    for item in (path for path in directory.iterdir() if path.name in SENT):
        target = given / name / item.name
        _ = shutil.copytree(item, target) if item.is_dir() else shutil.copy(item, target)


def described(given: Path, out: Path, project: str = "", checkout: str = ".") -> dict[str, str]:
    for name in repository.GIVEN:
        (given / name).mkdir(parents=True, exist_ok=True)
    repository.main([str(given), str(out), ".", project, checkout])
    return {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*") if path.is_file()}


@pytest.fixture(params=["sha1", "sha256"])
def made(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    made = tmp_path / "made"
    made.mkdir()
    git(made, "init", "--quiet", f"--object-format={request.param}")
    commit(made, 1_700_000_000, sub__demo_py="", _gitignore="*.local\n")
    git(made, "tag", "v1")
    return made


def test_checkout(made: Path, tmp_path: Path) -> None:
    sent(made / ".git", tmp_path / "given", "git-checkout")
    found = json.loads(described(tmp_path / "given", tmp_path / "out")[repository.STATE])
    assert found["head"] == git(made, "rev-parse", "HEAD")
    assert [names for *_, names in found["tags"]] == [[["v1", ""]]]
    assert found["files"].keys() == {".gitignore", "sub/demo.py"}


def test_below_the_top_has_the_rules_above(made: Path, tmp_path: Path) -> None:
    sent(made / ".git", tmp_path / "given", "git-checkout")
    texts = described(tmp_path / "given", tmp_path / "out", "sub")
    assert json.loads(texts[repository.STATE])["files"].keys() == {"sub/demo.py"}
    assert "*.local\n" in texts["rules/gitignore"]


def test_worktree_needs_what_all_share(made: Path, tmp_path: Path) -> None:
    git(made, "worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"))
    sent(made / ".git" / "worktrees" / "tree", tmp_path / "given", "git-directory")
    assert "rules/refused" in described(tmp_path / "given", tmp_path / "one")
    shutil.rmtree(tmp_path / "given" / "git-checkout")
    sent(made / ".git", tmp_path / "given", "git-checkout")
    found = json.loads(described(tmp_path / "given", tmp_path / "both")[repository.STATE])
    assert (found["head"], found["branch"]) == (git(made, "rev-parse", "HEAD"), "")


@pytest.mark.parametrize("lost", ["objects", "refs", "index"])
def test_what_git_cannot_read_is_refused(made: Path, tmp_path: Path, lost: str) -> None:
    given = tmp_path / "given"
    sent(made / ".git", given, "git-checkout")
    place = given / "git-checkout"
    if lost == "objects":
        # As in a clone with alternates: they are on the host.
        shutil.rmtree(place / "objects")
    else:
        (place / ("HEAD" if lost == "refs" else "index")).write_text("ref: refs/heads/.invalid\n")
    texts = described(given, tmp_path / "out")
    assert texts.keys() == {"rules/exclude", "rules/refused"}
    assert "wheel-bakery wheel" in texts["rules/refused"]


def test_history_with_a_gap_is_refused(made: Path, tmp_path: Path) -> None:
    commit(made, 1_700_000_100, more_txt="1")
    sent(made / ".git", tmp_path / "given", "git-checkout")
    oldest = git(made, "rev-parse", "HEAD~1")
    (tmp_path / "given" / "git-checkout" / "objects" / oldest[:2] / oldest[2:]).unlink()
    assert "rules/refused" in described(tmp_path / "given", tmp_path / "out")


def test_no_git_directory(tmp_path: Path) -> None:
    assert described(tmp_path / "given", tmp_path / "a").keys() == {"rules/exclude", "rules/absent"}
    assert described(tmp_path / "given", tmp_path / "b", checkout="") == {}


def test_repository_without_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "made")
    sent(tmp_path / "made" / ".git", tmp_path / "given", "git-checkout")
    found = json.loads(described(tmp_path / "given", tmp_path / "out")[repository.STATE])
    assert (found["head"], found["files"]) == ("", {})


def test_rules_with_many_stars_end_soon() -> None:
    """Each pair of stars may stand for any part of the path: counted one by one, the ways would never end."""
    stars, folder = "**/" * 60, "a/" * 60
    moved = repository.rules((f"/{stars}x",), (), folder)["rules/exclude"]
    assert moved.endswith("\n/src/**/x\n")
