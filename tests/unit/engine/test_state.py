"""The state folder: outside of the project, of this user alone, and gone with its project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bakery.core.errors import OutputError, UsageError
from bakery.runs.run_folders import state_folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state")}


def test_a_project_has_one_folder_however_it_is_named(root: Path, tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "link").symlink_to(root)
    folder = state_folder(root, environ)
    assert folder == state_folder(tmp_path / "link", environ) == state_folder(root / "x" / "..", environ)
    assert folder.is_relative_to(tmp_path / "state" / "bakery")
    assert folder.stat().st_mode & 0o777 == 0o700
    other = tmp_path / "other"
    other.mkdir()
    assert state_folder(other, environ) != folder


def test_without_the_variable_it_is_below_home(root: Path, tmp_path: Path) -> None:
    for value in ({}, {"XDG_STATE_HOME": "relative"}):
        folder = state_folder(root, {"HOME": str(tmp_path / "home"), **value})
        assert folder.is_relative_to(tmp_path / "home" / ".local" / "state" / "bakery")


def test_a_ci_names_the_folder(root: Path, tmp_path: Path, environ: dict[str, str]) -> None:
    named = {**environ, "BAKERY_STATE_DIR": str(tmp_path / "carried")}
    assert state_folder(root, named) == tmp_path / "carried"
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", [".bakery/state", ".", "link/state"])
def test_it_is_never_in_the_project(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(root)
    (tmp_path / "in").symlink_to(root)
    named = str(tmp_path / "in" / "state") if name.startswith("link") else name
    with pytest.raises(UsageError, match="is inside the project"):
        state_folder(root, {"BAKERY_STATE_DIR": named})
    assert not list(root.iterdir())


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(
    root: Path, tmp_path: Path, environ: dict[str, str], mode: int
) -> None:
    for variables in (environ, {"BAKERY_STATE_DIR": str(tmp_path / "named")}):
        state_folder(root, variables).chmod(mode)
        with pytest.raises(OutputError, match="does not belong to this user alone"):
            state_folder(root, variables)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_folder_of_another_user_is_refused(root: Path, environ: dict[str, str]) -> None:
    os.chown(state_folder(root, environ), 65534, 65534)
    with pytest.raises(OutputError, match="does not belong to this user alone"):
        state_folder(root, environ)


def test_a_link_in_its_place_is_refused(root: Path, tmp_path: Path, environ: dict[str, str]) -> None:
    folder = state_folder(root, environ)
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    with pytest.raises(OutputError, match="does not belong to this user alone"):
        state_folder(root, environ)


def test_a_folder_that_cannot_be_made_is_told(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for variables in ({"XDG_STATE_HOME": str(tmp_path / "file")}, {"BAKERY_STATE_DIR": str(tmp_path / "file" / "x")}):
        with pytest.raises(OutputError, match="cannot write the state folder") as caught:
            state_folder(root, variables)
        assert "BAKERY_STATE_DIR" in caught.value.hint


def test_folders_of_projects_that_are_gone_are_removed(tmp_path: Path, environ: dict[str, str]) -> None:
    folders = {}
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        folders[name] = state_folder(tmp_path / name, environ)
    (tmp_path / "a").rename(tmp_path / "moved")
    state_folder(tmp_path / "b", environ)
    assert folders["a"].exists()
    state_folder(tmp_path / "moved", environ)
    assert [name for name, folder in folders.items() if folder.exists()] == ["b", "c"]
