"""Repositories of a few kB whose commits have more files than any disk, and names that no file can have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from odd_repositories import Repository

from bakery.core import child, git, git_command
from bakery.core.errors import OutputError, UsageError
from bakery.resolve.changed_cells import Change, changes_since, write_old_recipes


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(git_command, "_SILENT", set())
    return Repository(tmp_path / "project")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The commands of git that ran, and how often."""
    commands: Counter[str] = Counter()
    run = child.run

    def counted(argv: Sequence[str], **options: Any) -> child.Ended:
        commands[argv[argv.index("-C") + 2]] += 1
        return run(argv, **options)

    monkeypatch.setattr(child, "run", counted)
    return commands


def test_a_commit_of_too_many_files_is_not_put_into_an_index(
    repository: Repository, asked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took ten minutes, and 12 GB of memory."""
    monkeypatch.setattr(git_command, "_LONGEST_LIST", 1 << 20)
    commit = repository.bomb(repository.tree(("100644", "bakery.toml", repository.add("blob", b"x"))))
    assert git.differing(repository.top, commit) is None
    assert git.compare_files(repository.top, ["a"]) is None
    assert git.listing(repository.top) is None
    with pytest.raises(UsageError, match="cannot compare"):
        changes_since(repository.top, commit)
    target = repository.top.parent / "clone"
    target.mkdir()
    assert git.clone(repository.top, commit, target) is None
    assert "read-tree" not in asked
    assert "checkout" not in asked


def test_recipes_of_a_commit_are_read_at_once(repository: Repository, asked: Counter[str], tmp_path: Path) -> None:
    """Git ran once for each: 10,000 times."""
    one, two = repository.add("blob", b"name = 'a'\n"), repository.add("blob", b"\xff\n\n")
    folders = [("40000", f"{number:03}", repository.tree(("100644", "bakery.toml", one))) for number in range(300)]
    top = [*folders, ("100644", "bakery.toml", two), ("120000", "pyproject.toml", one)]
    commit = repository.commit(repository.tree(*top))
    write_old_recipes(Change("old", commit, repository.top, ()), tmp_path / "old")
    assert sum(asked.values()) == 2
    assert len([*(tmp_path / "old").rglob("*.toml")]) == 301
    assert (tmp_path / "old/000/bakery.toml").read_bytes() == b"name = 'a'\n"
    assert (tmp_path / "old/bakery.toml").read_bytes() == b"\xff\n\n"


def test_too_many_recipes_are_refused_before_one_is_written(repository: Repository, tmp_path: Path) -> None:
    leaf = repository.tree(("100644", "bakery.toml", repository.add("blob", b"x")))
    for _ in range(11):
        leaf = repository.tree(("40000", "a", leaf), ("40000", "b", leaf))
    change = Change("old", repository.commit(leaf), repository.top, ())
    with pytest.raises(UsageError, match="more than 2000"):
        write_old_recipes(change, tmp_path / "old")
    assert not list((tmp_path / "old").iterdir())


def test_a_recipe_that_git_does_not_have(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit(repository.tree(("100644", "bakery.toml", "1" * 40)))
    with pytest.raises(OutputError, match=r"git cannot read bakery\.toml"):
        write_old_recipes(Change("old", commit, repository.top, ()), tmp_path / "old")


@pytest.mark.parametrize("name", ["a" * 300, "a" * 5000])
def test_a_submodule_with_a_name_that_no_folder_has(repository: Repository, name: str) -> None:
    """It was an internal error."""
    commit = repository.commit(
        repository.tree(("100644", "a", repository.add("blob", b"x")), ("160000", name, "1" * 40))
    )
    changes_since(repository.top, commit)
    git.compare_files(repository.top, ["a"])
