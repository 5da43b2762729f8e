"""What git says of a source, by real repositories."""

from __future__ import annotations

from pathlib import Path

import pytest
from repositories import commit, git

from bakery.api import plan_recipe
from bakery.core.git import Checkout, committed, compare_files
from bakery.recipe.models import Recipe


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, 1_600_000_000, pkg__a_py="1", pkg__bakery_toml="1", other_txt="1")
    return tmp_path


def test_the_last_commit_that_changed_the_folder(repository: Path) -> None:
    assert committed(repository / "pkg") == 1_600_000_000
    commit(repository, 1_600_000_100, other_txt="2")
    assert committed(repository) == 1_600_000_100
    assert committed(repository / "pkg") == 1_600_000_000
    commit(repository, 1_600_000_200, pkg__a_py="2")
    assert committed(repository / "pkg") == 1_600_000_200


def test_recipes_and_their_files_are_no_source(repository: Path) -> None:
    commit(repository, 1_600_000_300, pkg__bakery_toml="2", bake__x_hcl="2", dockerfiles__x_txt="2")
    assert committed(repository) == committed(repository / "pkg") == 1_600_000_000


def test_work_in_progress_is_the_last_commits(repository: Path) -> None:
    (repository / "pkg" / "a.py").write_text("3")
    (repository / "pkg" / "new file ü.py").write_text("3")
    (repository / "other.txt").unlink()
    assert committed(repository / "pkg") == 1_600_000_000
    found = compare_files(repository / "pkg", ["a.py", "new file ü.py"])
    assert found is not None
    assert found.commit == git(repository, "rev-parse", "HEAD")
    assert found.changed == ("a.py", "new file ü.py")
    assert compare_files(repository / "pkg", ["bakery.toml"]) == Checkout(found.commit, ())
    above = compare_files(repository, ["pkg/a.py", "pkg/bakery.toml"])
    assert above is not None
    assert above.changed == ("pkg/a.py",)


def test_what_git_does_not_know_is_no_commits(repository: Path) -> None:
    commit(repository, 1_600_000_400, _gitignore="*.bin\n")
    (repository / "pkg" / "data.bin").write_text("x")
    (repository / "pkg" / "a.py").unlink()
    found = compare_files(repository, ["pkg/bakery.toml", "pkg/data.bin"])
    assert found is not None
    assert found.changed == ("pkg/a.py", "pkg/data.bin")


@pytest.mark.parametrize("case", ["none", "empty", "untracked", "broken"])
def test_a_folder_without_commits(tmp_path: Path, case: str) -> None:
    if case != "none":
        git(tmp_path, "init", "--quiet")
    if case == "untracked":
        commit(tmp_path, 1_600_000_000, other__a_txt="1")
    if case == "broken":
        (tmp_path / ".git" / "HEAD").write_text("?")
    folder = tmp_path / "pkg"
    folder.mkdir()
    assert committed(folder) is None
    assert compare_files(folder, ["a.py"]) is None


def test_a_hook_runs_in_another_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    assert committed(repository) == 1_600_000_000


def test_the_plan_takes_it_unless_something_else_is_said(repository: Path) -> None:
    def epoch(recipe: Recipe, *sets: str, dated: bool = True) -> tuple[str, str]:
        plan = plan_recipe(recipe, root=repository, sets=sets, dated=dated)
        value, origin = plan.origins["variables.SOURCE_DATE_EPOCH"]
        assert plan.values()["SOURCE_DATE_EPOCH"] == value
        return value, origin

    assert epoch(Recipe(name="x")) == ("1600000000", "the source's last commit")
    assert epoch(Recipe.model_validate({"name": "x", "source": "pkg"}))[0] == "1600000000"
    assert epoch(Recipe(name="x"), "SOURCE_DATE_EPOCH=5") == ("5", "--set")
    assert epoch(Recipe(name="x"), dated=False) == ("315532800", "default")
    assert epoch(Recipe.model_validate({"name": "x", "source": "sdist:y==1"})) == ("315532800", "default")
    commit(repository, 1_000, pkg__b_py="1")
    assert epoch(Recipe(name="x")) == ("315532800", "the source's last commit")
