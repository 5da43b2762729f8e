"""What git says of a source, by real repositories."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import plans
import pytest
from repositories import commit, compared, git
from sample import sampled

from bakery.cli.recipes import resolved
from bakery.core.errors import PlanError
from bakery.core.git import Checkout, clone, committed, compare_files, differing, doubt
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
    found = compared(repository / "pkg", ["a.py", "new file ü.py"])
    assert found.commit == git(repository, "rev-parse", "HEAD")
    assert found.changed == ("a.py", "new file ü.py")
    assert compare_files(repository / "pkg", ["bakery.toml"]) == Checkout(found.commit, ())
    assert compared(repository, ["pkg/a.py", "pkg/bakery.toml"]).changed == ("pkg/a.py",)


def test_what_git_does_not_know_is_no_commits(repository: Path) -> None:
    commit(repository, 1_600_000_400, _gitignore="*.bin\n")
    (repository / "pkg" / "data.bin").write_text("x")
    (repository / "pkg" / "a.py").unlink()
    assert compared(repository, ["pkg/bakery.toml", "pkg/data.bin"], lambda name: name.startswith("pkg/")).changed == (
        "pkg/a.py",
        "pkg/data.bin",
    )


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
        plan = plans.planned(recipe, repository, *sets, dated=dated)
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


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_no_flag_of_the_index_hides_a_change(repository: Path, flag: str) -> None:
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "update-index", flag, "pkg/a.py", "other.txt")
    names = ["pkg/a.py", "other.txt"]
    assert compare_files(repository, names) == Checkout(head, ())
    assert differing(repository, head) == set()
    (repository / "pkg" / "a.py").write_text("2")
    (repository / "other.txt").unlink()
    assert compared(repository, names[:1], lambda _: True).changed == ("other.txt", "pkg/a.py", "pkg/bakery.toml")
    assert differing(repository, head) == differing(repository, "HEAD") == {"other.txt", "pkg/a.py"}


def test_no_time_in_the_index_hides_a_change(repository: Path) -> None:
    git(repository, "config", "core.trustctime", "false")
    git(repository, "config", "core.checkstat", "minimal")
    path = repository / "pkg" / "a.py"
    os.utime(path, (1_000_000_000, 1_000_000_000))
    git(repository, "update-index", "--refresh")
    path.write_text("2")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert git(repository, "status", "--porcelain") == ""
    found = compared(repository, ["pkg/a.py"])
    assert found.changed == ("pkg/a.py",)
    assert differing(repository, found.commit) == {"pkg/a.py"}


def test_a_replaced_commit_is_not_believed(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    commit(repository, 1_600_000_100, pkg__a_py="2")
    git(repository, "replace", "HEAD", first)
    assert committed(repository / "pkg") == 1_600_000_100
    assert compare_files(repository, ["pkg/a.py"]) == Checkout(git(repository, "rev-parse", "HEAD"), ())


@pytest.fixture
def with_submodule(tmp_path: Path) -> Path:
    """A checkout with a submodule, in which another one is."""
    for name, inner in (("deep", ""), ("sub", "deep"), ("top", "sub")):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "--quiet")
        commit(tmp_path / name, 1_600_000_000, a_c="1")
        if inner:
            add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / inner), inner)
            git(tmp_path / name, *add)
            git(tmp_path / name, "commit", "--quiet", "--message", "x", at=1_600_000_000)
    git(tmp_path / "top", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")
    return tmp_path / "top"


SENT = (".gitmodules", "a.c", "sub/.gitmodules", "sub/a.c", "sub/deep/a.c")


def test_clean_submodules_belong_to_the_commit(with_submodule: Path, tmp_path: Path) -> None:
    found = compare_files(with_submodule, SENT, lambda _: True)
    heads = {name: git(with_submodule / name, "rev-parse", "HEAD") for name in ("sub", "sub/deep")}
    assert found == Checkout(git(with_submodule, "rev-parse", "HEAD"), (), heads)
    # A rebuild has them, too.
    (tmp_path / "there").mkdir()
    there = clone(with_submodule, found.commit, tmp_path / "there")
    assert there
    assert {path.relative_to(there).as_posix() for path in there.rglob("[.a]*") if path.name != ".git"} >= set(SENT)
    assert doubt(with_submodule) == ("", "")


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("sub/a.c", ("sub/a.c",)),
        ("sub/deep/a.c", ("sub/deep/a.c",)),
        ("sub/deep/new.c", ("sub/deep/new.c",)),
        ("sub", ("sub",)),
        ("sub/deep", ("sub/deep",)),
    ],
)
def test_changed_submodules_are_named(with_submodule: Path, name: str, changed: tuple[str, ...]) -> None:
    path, sent = with_submodule / name, [*SENT]
    if path.is_dir():
        git(path, "commit", "--quiet", "--allow-empty", "--message", "x", at=1_600_000_100)
    else:
        path.write_text("2")
        sent += [name] if name not in sent else []
    found = compared(with_submodule, sent, lambda _: True)
    assert found.changed == changed
    assert "sub" in {name.partition("/")[0] for name in differing(with_submodule, found.commit) or ()}


CHANGES = ("new file", "changed file", "changed file below", "commit")
IGNORED = ("", "none", "untracked", "dirty", "all")


# Three has no common divisor with the number of any of them, so the sample has each value several times.
@pytest.mark.parametrize(
    ("place", "ignore", "change"), sampled(product((".gitmodules", ".git/config"), IGNORED, CHANGES), 3)
)
def test_a_submodule_makes_a_version_dirty_as_for_git(
    with_submodule: Path, ignore: str, change: str, place: str
) -> None:
    sub = with_submodule / "sub"
    if ignore:
        git(with_submodule, "config", "--file", place, "submodule.sub.ignore", ignore)
        git(with_submodule, "commit", "--quiet", "--allow-empty", "--all", "--message", "x", at=1_600_000_100)
    if change == "commit":
        git(sub, "commit", "--quiet", "--allow-empty", "--message", "x", at=1_600_000_100)
    else:
        names = {"new file": "new.c", "changed file": "a.c", "changed file below": "deep/a.c"}
        (sub / names[change]).write_text("2")
    is_dirty = git(with_submodule, "describe", "--always", "--dirty").endswith("-dirty")
    assert differing(with_submodule, "HEAD", for_version=True) == ({"sub"} if is_dirty else set())
    # A record names what differs, whatever the project ignores.
    assert differing(with_submodule, "HEAD") == {"sub"}


def test_a_submodule_that_is_not_checked_out_is_empty_in_the_commit_s_clone_too(with_submodule: Path) -> None:
    git(with_submodule, "submodule", "deinit", "--force", "--quiet", "sub")
    found = compare_files(with_submodule, [".gitmodules", "a.c", "sub/"], lambda _: True)
    assert found == Checkout(git(with_submodule, "rev-parse", "HEAD"), ())


def test_an_empty_folder_is_in_no_commit(repository: Path) -> None:
    assert compared(repository, ["pkg/a.py", "feature/"]).changed == ("feature/",)


def test_why_git_tells_nothing(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert doubt(repository / "pkg") == ("", "")
    assert doubt(Path("/")) == ("", "")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    problem, fix = doubt(repository / "pkg")
    assert problem == "it belongs to another user"
    assert fix.endswith(f"git config --global --add safe.directory {repository}")
    monkeypatch.delenv("GIT_TEST_ASSUME_DIFFERENT_OWNER")
    (repository / ".git" / "HEAD").rename(tmp_path / "HEAD")
    assert doubt(repository)[0].startswith("fatal: not a git repository")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert doubt(repository)[0] == "git is not installed"


def test_a_repository_without_commits_is_no_problem(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert doubt(tmp_path) == ("", "")


def test_the_oldest_commit_of_a_shallow_clone_is_no_last_change(repository: Path, tmp_path: Path) -> None:
    commit(repository, 1_600_000_100, other_txt="2")
    commit(repository, 1_600_000_200, other_txt="3")
    cloned = tmp_path / "cloned"
    git(tmp_path, "clone", "--quiet", "--depth=2", f"file://{repository}", str(cloned))
    assert committed(cloned / "pkg") == 1_600_000_100
    problem, fix = doubt(cloned / "pkg")
    assert "shallow" in problem
    assert "git fetch --unshallow" in fix
    # What changed since the oldest commit is known.
    assert (committed(cloned), doubt(cloned)) == (1_600_000_200, ("", ""))


def test_a_clone_without_trees_is_no_clone_without_commits(repository: Path, tmp_path: Path) -> None:
    commit(repository, 1_600_000_100, other_txt="2")
    git(repository, "config", "uploadpack.allowFilter", "true")
    for name, kind in (("blobs", "blob:none"), ("trees", "tree:0")):
        git(tmp_path, "clone", "--quiet", f"--filter={kind}", f"file://{repository}", name)
    assert (committed(tmp_path / "blobs" / "pkg"), doubt(tmp_path / "blobs" / "pkg")) == (1_600_000_000, ("", ""))
    assert committed(tmp_path / "trees" / "pkg") is None
    problem, fix = doubt(tmp_path / "trees" / "pkg")
    assert problem.startswith("fatal:")
    assert "blob:none" in fix


def test_the_environment_sets_the_time_of_everything_but_of_committed_files(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "bakery.toml").write_text('name = "x"\n')
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1650000000")

    def epoch(*sets: str, dated: bool = True) -> tuple[str, str]:
        ((_, plan),) = resolved(None, list(sets), repository, dated=dated)
        return plan.origins["variables.SOURCE_DATE_EPOCH"]

    assert epoch() == ("1650000000", "SOURCE_DATE_EPOCH")
    assert epoch("SOURCE_DATE_EPOCH=5") == ("5", "--set")
    assert epoch(dated=False) == ("315532800", "default")
    monkeypatch.setenv("BAKERY_SOURCE_DATE_EPOCH", "1660000000")
    assert epoch() == ("1660000000", "BAKERY_SOURCE_DATE_EPOCH")
    monkeypatch.undo()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "")
    assert epoch() == ("1600000000", "the source's last commit")


@pytest.mark.parametrize("value", ["1700000000000", "4354819200", "99999999999", "1e9", "-1", "2024-01-01", "1.5"])
def test_a_time_that_no_archive_can_have_is_refused(repository: Path, value: str) -> None:
    ways: list[tuple[dict[str, str], list[str], dict[str, object]]] = [
        ({"SOURCE_DATE_EPOCH": value}, [], {}),
        ({}, [f"SOURCE_DATE_EPOCH={value}"], {}),
        ({}, [f"*.args.SOURCE_DATE_EPOCH={value}"], {}),
        ({}, [f"wheel-cp311.args.SOURCE_DATE_EPOCH={value}"], {}),
        ({}, [], {"builder": {"environment": {"SOURCE_DATE_EPOCH": value}}}),
    ]
    for environ, sets, more in ways:
        recipe = Recipe.model_validate({"name": "x", **more})
        with pytest.raises(PlanError) as caught:
            plans.planned(recipe, repository, *sets, environ=environ)
        assert "SOURCE_DATE_EPOCH" in caught.value.details[0]
        assert "expected seconds since 1970, not milliseconds" in caught.value.details[0]


def test_a_commit_of_the_far_future_has_the_latest_time(repository: Path) -> None:
    commit(repository, 4_500_000_000, pkg__b_py="1")
    plan = plans.planned(Recipe(name="x"), repository)
    assert plan.values()["SOURCE_DATE_EPOCH"] == "4353999999"
