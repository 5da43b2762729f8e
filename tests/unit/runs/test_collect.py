"""Wheels from stage folders into the output folder; folders of runs."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakery.core.errors import AuditError, InterruptedBake, OutputError
from bakery.core.file_locks import halted_by
from bakery.core.inside import remove_tree
from bakery.runs import publish as collect
from bakery.runs import run_folders
from bakery.runs.publish import Claims, check_output, name_taken, publish, stage_files
from bakery.runs.run_folders import MAX_RUNS, prune, run_folder

NAME = "demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl"
OTHER = "demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    folder = tmp_path / "stage"
    folder.mkdir()
    return folder


def write(path: Path, text: str = "wheel") -> Path:
    path.write_text(text)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refusal(stage: Path, **bounds: int) -> str:
    with pytest.raises(AuditError) as caught:
        stage_files(stage, **bounds)
    return "\n".join([caught.value.message, *caught.value.details])


def test_wheels_are_found_in_order(stage: Path) -> None:
    write(stage / NAME)
    write(stage / OTHER)
    assert [path.name for path in stage_files(stage)] == [OTHER, NAME]


def test_links_are_refused(stage: Path) -> None:
    (stage / NAME).symlink_to("/etc/passwd")
    assert "a link" in refusal(stage)


def test_hard_links_are_refused(stage: Path) -> None:
    os.link(write(stage.parent / "secret"), stage / NAME)
    assert "a hard link" in refusal(stage)


def test_folders_and_pipes_are_refused(stage: Path) -> None:
    (stage / NAME).mkdir()
    os.mkfifo(stage / OTHER)
    assert refusal(stage).splitlines()[1:] == [f"'{OTHER}': a device, pipe or socket", f"'{NAME}': a folder"]


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt", "demo.whl", "demo-1.0-py3-none-any.whl\n", "-1.0-py3-none-any.whl",
        "d\x1b[2J-1.0-py3-none-any.whl", "démo-1.0-py3-none-any.whl", ".demo-1.0-py3-none-any.whl.swp",
        "demo-x!-py3-none-any.whl",
    ],
)  # fmt: skip
def test_other_names_are_refused(stage: Path, name: str) -> None:
    write(stage / NAME)
    write(stage / name)
    said = refusal(stage)
    assert "not the name of a wheel" in said
    assert "\x1b" not in said


def test_bounds(stage: Path) -> None:
    write(stage / NAME, "12345")
    write(stage / OTHER, "123")
    assert "5 bytes, more than 4" in refusal(stage, largest=4)
    assert "more than 1 files" in refusal(stage, most=1)


def test_large_file_is_refused_without_reading_it(stage: Path) -> None:
    with (stage / NAME).open("wb") as file:
        file.truncate(collect.LARGEST + 1)
    assert "more than" in refusal(stage)


def test_stage_must_be_a_folder_with_wheels(stage: Path, tmp_path: Path) -> None:
    assert "no wheel" in refusal(stage)
    (tmp_path / "link").symlink_to(stage)
    assert "is not a folder" in refusal(tmp_path / "link")
    with pytest.raises(OutputError):
        stage_files(tmp_path / "missing")


@given(st.text(max_size=30))
def test_only_wheel_names_pass(name: str) -> None:
    status = os.stat_result((0o100600, 1, 1, 1, 0, 0, 10, 0, 0, 0))
    if collect._problem(name, status, 100) == "":
        assert name.endswith(".whl")
        assert "/" not in name
        assert name.isprintable()


def test_publish(stage: Path, tmp_path: Path) -> None:
    write(stage / NAME).chmod(0o4600)
    other = write(tmp_path / "dist-other")
    output = tmp_path / "dist"
    (published,) = publish([stage / NAME], output, root=tmp_path)
    assert published == output / NAME
    assert published.read_text() == "wheel"
    assert published.stat().st_mode & 0o7777 == 0o644
    assert names(output) == [NAME]
    assert other.exists()


def test_same_content_is_left_alone(stage: Path, tmp_path: Path) -> None:
    output = tmp_path / "dist"
    (published,) = publish([write(stage / NAME)], output, root=tmp_path)
    os.utime(published, (1, 1))
    inode = published.stat().st_ino
    publish([stage / NAME], output, root=tmp_path)
    assert (published.stat().st_mtime, published.stat().st_ino) == (1, inode)
    write(stage / NAME, "WHEEL")
    publish([stage / NAME], output, root=tmp_path)
    assert published.read_text() == "WHEEL"
    assert published.stat().st_ino != inode


def test_link_under_the_name_is_replaced_not_followed(stage: Path, tmp_path: Path) -> None:
    precious = write(tmp_path / "precious", "precious")
    output = tmp_path / "dist"
    output.mkdir()
    (output / NAME).symlink_to(precious)
    publish([write(stage / NAME)], output, root=tmp_path)
    assert precious.read_text() == "precious"
    assert not (output / NAME).is_symlink()


def test_what_dead_runs_left_is_removed_and_nothing_else(stage: Path, tmp_path: Path) -> None:
    output = tmp_path / "dist"
    output.mkdir()
    write(output / ".bakery-dead.tmp")
    kept = [write(output / name).name for name in ("notes.txt", ".bakery-x", "x.tmp", "old-1-py3-none-any.whl")]
    publish([write(stage / NAME)], output, root=tmp_path)
    assert names(output) == sorted([*kept, NAME])


def test_full_disk_leaves_all_as_it_was(stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "dist"
    publish([write(stage / NAME, "old")], output, root=tmp_path)
    write(stage / NAME, "new")
    write(stage / OTHER)
    real, calls = collect.shutil.copyfileobj, []

    def fail(source: object, target: object, length: int) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target, length)  # type: ignore[arg-type]

    monkeypatch.setattr(collect.shutil, "copyfileobj", fail)
    with pytest.raises(OutputError, match="No space left"):
        publish([stage / NAME, stage / OTHER], output, root=tmp_path)
    assert names(output) == [NAME]
    assert (output / NAME).read_text() == "old"


def test_output_that_cannot_be_written(stage: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "dist")
    with pytest.raises(OutputError):
        publish([write(stage / NAME)], file, root=tmp_path)
    output = tmp_path / "folder"
    (output / NAME).mkdir(parents=True)
    with pytest.raises(OutputError, match="is a folder"):
        publish([stage / NAME], output, root=tmp_path)
    assert names(output) == [NAME]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_output(stage: Path, tmp_path: Path) -> None:
    output = tmp_path / "dist"
    output.mkdir(mode=0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        publish([write(stage / NAME)], output, root=tmp_path)


def test_output_may_not_lead_out_by_a_link(stage: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "dist").symlink_to(tmp_path)
    with pytest.raises(OutputError, match="leads out"):
        publish([write(stage / NAME)], root / "dist", root=root)
    (root / "real").mkdir()
    (root / "inner").symlink_to("real")
    assert publish([stage / NAME], root / "inner", root=root) == (root / "inner" / NAME,)
    # A folder elsewhere that a person names is theirs to name.
    publish([stage / NAME], tmp_path / "elsewhere", root=root)


def test_two_cells_may_not_make_different_files_of_one_name(tmp_path: Path) -> None:
    claims = Claims()
    claims.take("demo cp311", tmp_path, {NAME: "aa", OTHER: "bb"})
    claims.take("demo cp312", tmp_path, {NAME: "aa"})
    with pytest.raises(OutputError, match="different files with one name") as caught:
        claims.take("other cp313", tmp_path / "x" / "..", {"new.whl": "dd", NAME: "cc"})
    assert caught.value.details == ("demo cp311: sha256 aa", "other cp313: sha256 cc")
    # Nothing was claimed then, and another output folder has other files.
    claims.take("demo cp314", tmp_path, {"new.whl": "ee"})
    claims.take("other cp313", tmp_path / "other", {NAME: "cc"})


@pytest.mark.parametrize(
    ("tags", "key"),
    [
        ("cp39-abi3", 'set wheel.abi3 = "3.9"'),
        ("cp311.cp312-abi3", 'set wheel.abi3 = "3.11"'),
        ("py3-none", "set wheel.py3 = true"),
        ("py2.py3-none", "set wheel.py3 = true"),
        ("cp311-cp311", "bake one of them only"),
    ],
)
def test_the_key_that_lets_one_cell_build_for_all_is_named(tags: str, key: str) -> None:
    error = name_taken(f"a-1.0-{tags}-manylinux_2_28_x86_64.whl", {"demo cp311": "aa", "demo cp313": "bb"})
    assert error.hint.startswith(key)


def test_output_folder_is_tried_before_the_work(tmp_path: Path) -> None:
    check_output(tmp_path / "dist", tmp_path)
    assert names(tmp_path / "dist") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        check_output(tmp_path / "file", tmp_path)
    (tmp_path / "link").symlink_to(tmp_path.parent)
    with pytest.raises(OutputError, match="leads out"):
        check_output(tmp_path / "link", tmp_path)


def test_wait_for_another_run_can_be_ended(stage: Path, tmp_path: Path) -> None:
    output = tmp_path / "dist"
    output.mkdir()
    handle = os.open(output, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with halted_by(lambda: "SIGTERM"):
        with pytest.raises(InterruptedBake, match="interrupted by SIGTERM while process"):
            publish([write(stage / NAME)], output, root=tmp_path)
        os.close(handle)
        assert names(output) == []
        publish([stage / NAME], output, root=tmp_path)
    assert names(output) == [NAME]


def test_runs_wait_for_each_other(stage: Path, tmp_path: Path) -> None:
    output = tmp_path / "dist"
    output.mkdir()
    write(stage / NAME)
    code = (
        "import sys; from pathlib import Path; from bakery.runs.publish import publish; print('ready', flush=True);"
        "publish([Path(sys.argv[1])], Path(sys.argv[2]), root=Path(sys.argv[3]))"
    )
    handle = os.open(output, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    # As a living run would have it.
    write(output / ".bakery-living.tmp")
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(stage / NAME), str(output), str(tmp_path)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.3)
    assert names(output) == [".bakery-living.tmp"]
    os.close(handle)
    assert child.wait(10) == 0
    child.stdout.close()
    assert names(output) == [NAME]


def test_run_folder_is_pruned(tmp_path: Path) -> None:
    paths = []
    for _ in range(8):
        with run_folder(tmp_path) as path:
            (path / "stage" / "cell").mkdir(parents=True)
            (path / "logs").mkdir()
            paths.append(path)
        assert not (path / "stage").exists()
    left = sorted((tmp_path / "runs").iterdir())
    assert len(left) == 6
    assert set(left) <= set(paths)


def test_runs_that_baked_nothing_push_out_no_logs(tmp_path: Path) -> None:
    with run_folder(tmp_path) as baked:
        (baked / "logs").mkdir()
    for _ in range(8):
        with run_folder(tmp_path) as path:
            (path / "report.json").write_text("{}")
    assert (baked / "logs").is_dir()
    assert len(list((tmp_path / "runs").iterdir())) == 1 + MAX_RUNS + 1


def test_living_runs_are_not_pruned(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with run_folder(tmp_path, keep=0) as first:
        (first / "stage").mkdir()
        dead = folder / "dead"
        (dead / "stage").mkdir(parents=True)
        (dead / "stage" / "locked").mkdir(mode=0)
        prune(folder, keep=1)
        assert dead.exists()
        assert not (dead / "stage").exists()
        with run_folder(tmp_path, keep=0):
            assert (first / "stage").exists()
            assert not dead.exists()


def test_tree_behind_a_link_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    write(precious / "file")
    link = tmp_path / "link"
    link.symlink_to(precious)
    remove_tree(link)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(precious)
    remove_tree(tree)
    assert not tree.exists()
    assert (precious / "file").exists()


def test_own_folder_is_not_made_through_a_link(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    (project / ".bakery").symlink_to(elsewhere)
    with pytest.raises(OutputError, match=r"/\.bakery: a link"):
        run_folders.make_own_folder(project)
    assert not list(elsewhere.iterdir())


def test_ignore_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".bakery").mkdir(parents=True)
    (project / ".bakery" / ".gitignore").symlink_to(tmp_path / "outside")
    with pytest.raises(OutputError, match="is a link"):
        run_folders.make_own_folder(project)
    assert not (tmp_path / "outside").exists()


def test_pipe_in_place_of_a_wheel_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    assert not collect.holds(tmp_path, NAME, "")


def test_nothing_has_a_name_before_it_is_complete(stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "dist"
    output.mkdir()
    seen: list[list[str]] = []
    monkeypatch.setattr(collect.shutil, "copyfileobj", lambda *_: seen.append(names(output)))
    publish([write(stage / NAME)], output, root=tmp_path)
    assert seen == [[]]
    assert names(output) == [NAME]


def test_file_system_without_unnamed_files(stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    (published,) = publish([write(stage / NAME)], tmp_path / "dist", root=tmp_path)
    assert published.read_text() == "wheel"
    assert names(tmp_path / "dist") == [NAME]
