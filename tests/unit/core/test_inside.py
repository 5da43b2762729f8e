"""Folders and names of strangers: no name leaves its folder, no link is followed at any level, no pipe is waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bakery.core.inside import Inside, relative, remove_tree, stays
from wheel_audit.plain_files import open_plain


@pytest.mark.parametrize(
    "name",
    [
        "", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "./a", "a//b", "a/", "a\\..\\b", "a\0b", "a\nb", "a\x1b[0m",
        ".git/config", "a/.GIT/hooks/x", ".git./x", ".g\u200cit/x", "git~1/x", "a/" * 600 + "b",
    ],
)  # fmt: skip
def test_a_name_that_may_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(OSError, match="refusing the name"):
        relative(name)


@pytest.mark.parametrize("name", ["a", "a/b.toml", ".github/x", "a b/ü", "..a/b..", "a:b"])
def test_names_of_files_are_names(name: str) -> None:
    assert relative(name) == name


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file").write_text("secret")
    return folder


@pytest.fixture
def inside(tmp_path: Path, victim: Path) -> Inside:
    """Give a folder with links to the victim as a file, as a folder, and through another link."""
    folder = tmp_path / "folder"
    (folder / "real").mkdir(parents=True)
    (folder / "real" / "file").write_text("own")
    (folder / "link").symlink_to(victim)
    (folder / "chain").symlink_to("link")
    (folder / "file").symlink_to(victim / "file")
    os.mkfifo(folder / "pipe")
    return Inside(folder)


@pytest.mark.parametrize("name", ["file", "link/file", "chain/file", "real/../file", "pipe", "real", "../victim/file"])
def test_nothing_outside_and_no_pipe_is_read(inside: Inside, name: str) -> None:
    with pytest.raises(OSError, match=r"link|not a regular file|refusing"):
        inside.read(name, 100)


@pytest.mark.parametrize("name", ["link/file", "chain/new", "../victim/file", "link/sub/file", "file/x"])
def test_nothing_outside_is_written(inside: Inside, victim: Path, name: str) -> None:
    with pytest.raises(OSError, match=r"link|refusing"):
        inside.write(name, b"evil")
    for target in ("link", name.replace("..", "link")):
        inside.remove(target)
    assert [path.name for path in victim.iterdir()] == ["file"]
    assert (victim / "file").read_text() == "secret"


@pytest.mark.parametrize("levels", [1, 2100])
def test_a_folder_is_removed_however_deep_it_is(inside: Inside, victim: Path, levels: int) -> None:
    real = inside.folder / "real"
    handle = os.open(real, os.O_RDONLY)
    for _ in range(levels):
        for name in ("d", "e"):
            os.mkdir(name, dir_fd=handle)
        os.symlink(victim, "link", dir_fd=handle)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0, dir_fd=handle))
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    inside.remove("real")
    assert sorted(path.name for path in inside.folder.iterdir()) == ["chain", "file", "link", "pipe"]
    assert (victim / "file").read_text() == "secret"


def test_closed_folders_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing is closed to root; another user does not reach this folder by its path.
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o777)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        tree = Path("tree")
        (tree / "closed" / "inner").mkdir(parents=True)
        (tree / "closed" / "inner" / "file").touch()
        for path, mode in ((tree / "closed" / "inner", 0), (tree / "closed", 0o500), (tree, 0o400)):
            path.chmod(mode)
        remove_tree(tree)
    finally:
        os.seteuid(user)
    assert not list(tmp_path.iterdir())


def test_a_file_takes_the_place_of_a_link_and_of_a_hard_link(inside: Inside, victim: Path) -> None:
    os.link(victim / "file", inside.folder / "hard")
    for name in ("file", "hard", "real/sub/new"):
        inside.write(name, b"own")
        assert inside.read(name, 3) == b"own"
    assert (victim / "file").read_text() == "secret"
    assert not list(inside.folder.rglob("*.tmp"))


def test_what_is_too_large_is_not_read(inside: Inside) -> None:
    with pytest.raises(OSError, match="larger than 2 bytes"):
        inside.read("real/file", 2)


def test_names_do_not_follow_links_and_end(inside: Inside) -> None:
    assert inside.names() == ["chain", "file", "link", "pipe", "real/file"]
    assert inside.names("real") == ["real/file"]
    assert inside.names("gone") == []
    with pytest.raises(OSError, match="a link"):
        inside.names("link")
    with pytest.raises(OSError, match="more than 3 entries"):
        inside.names(most=3)


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(
    inside: Inside, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is exchanged when its first part is opened: the worst moment."""
    real_open = os.open

    def exchanged(path: str, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        handle = real_open(path, flags, *rest, dir_fd=dir_fd)
        if path == "real":
            (inside.folder / "real").rename(inside.folder / "moved")
            (inside.folder / "real").symlink_to(victim)
        return handle

    monkeypatch.setattr(os, "open", exchanged)
    assert inside.read("real/file", 10) == b"own"
    with pytest.raises(OSError, match="a link"):
        inside.write("real/file", b"evil")
    assert (victim / "file").read_text() == "secret"


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [
        ("a", "b", True), ("d/a", "../b", True), ("d/a", "./../b/c", True), ("a", "../b", False), ("d/a", "../../b", False),
        ("a", "/etc", False), ("a", "b\\..", False), ("a", "x" * 2000, False),
        # Behind a link, .. is another folder than it seems.
        ("p/q/a", "x/../../b", False), ("a", "b/..", False),
    ],
)  # fmt: skip
def test_targets_of_links(name: str, target: str, expected: bool) -> None:
    assert stays(name, target) is expected


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("file"), os.mkdir])
def test_only_plain_files_are_opened(victim: Path, make: Callable[[Path], None]) -> None:
    make(victim / "odd")
    with pytest.raises(OSError, match="odd"):
        open_plain(victim / "odd")
