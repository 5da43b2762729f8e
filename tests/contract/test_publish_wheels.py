"""A wheel and its records are published together: whatever ends a process, no wheel stands beside another one's record."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
from pathlib import Path

import pytest

from bakery.core.errors import OutputError
from bakery.runs import publish
from bakery.runs.publish import NewWheel, publish_wheels
from bakery.runs.records.buildkit import FOLDER, PROVENANCE, SBOM, record_path, waiting_path
from bakery.runs.records.read import provenance_of

NAMES = ("demo-1.0-cp311-cp311-linux_x86_64.whl", "demo-1.0+cpu-cp311-cp311-linux_x86_64.whl")


KILLED = 9


def wheels(folder: Path, text: str) -> list[NewWheel]:
    """Return two wheels that a build left with this content, and their records."""
    made = []
    for name in NAMES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} {text}")
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        records = [folder / "records" / f"{name}{suffix}" for suffix in (PROVENANCE, SBOM)]
        for record in records:
            record.parent.mkdir(exist_ok=True)
            record.write_text(json.dumps({"about": sha256}))
        made.append(NewWheel(path, sha256, records))
    return made


def published(output: Path) -> dict[str, str]:
    """Return name → content of the wheels, each of which must have the records of its bytes and no others at its side."""
    found = {}
    for path in output.glob("*.whl"):
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        for suffix in (PROVENANCE, SBOM):
            usual, waiting = record_path(path, suffix), waiting_path(path, sha256, suffix)
            assert usual.exists() or waiting.exists()
            for record in filter(Path.exists, (usual, waiting)):
                assert json.loads(record.read_text()) == {"about": sha256}, record
        assert provenance_of(path, sha256)
        found[path.name] = path.read_text().split()[1]
    return found


def tidy(output: Path) -> list[str]:
    return sorted(path.name for folder in (output, output / FOLDER) for path in folder.iterdir() if path.is_file())


ALL = sorted([*NAMES, *(f"{name}{suffix}" for name in NAMES for suffix in (PROVENANCE, SBOM))])


def test_a_set_is_published_and_replaced(tmp_path: Path) -> None:
    output = tmp_path / "dist"
    assert publish_wheels(wheels(tmp_path / "1", "old"), output, root=tmp_path) == []
    assert published(output) == dict.fromkeys(NAMES, "old")
    assert publish_wheels(wheels(tmp_path / "2", "new"), output, root=tmp_path) == list(NAMES)
    assert published(output) == dict.fromkeys(NAMES, "new")
    assert tidy(output) == ALL


def test_new_records_of_the_same_wheel_replace_the_old_ones(tmp_path: Path) -> None:
    output = tmp_path / "dist"
    publish_wheels(wheels(tmp_path / "1", "old"), output, root=tmp_path)
    inodes = {name: (output / name).stat().st_ino for name in NAMES}
    for wheel in (output / name for name in NAMES):
        record_path(wheel, SBOM).write_text("")
    assert publish_wheels(wheels(tmp_path / "2", "old"), output, root=tmp_path) == []
    assert published(output) == dict.fromkeys(NAMES, "old")
    assert {name: (output / name).stat().st_ino for name in NAMES} == inodes


def test_a_wheel_without_records_has_none_of_another(tmp_path: Path) -> None:
    output = tmp_path / "dist"
    publish_wheels(wheels(tmp_path / "1", "old"), output, root=tmp_path)
    publish_wheels(
        [NewWheel(wheel.path, wheel.sha256) for wheel in wheels(tmp_path / "2", "new")], output, root=tmp_path
    )
    assert sorted(path.name for path in output.iterdir()) == sorted(NAMES)


def test_a_wheel_beside_the_record_of_the_new_one_gets_it(tmp_path: Path) -> None:
    # As bakery left it before records were published with their wheel.
    output = tmp_path / "dist"
    publish_wheels(wheels(tmp_path / "1", "new"), output, root=tmp_path)
    for wheel in wheels(tmp_path / "2", "old"):
        (output / wheel.path.name).write_bytes(wheel.path.read_bytes())
    publish_wheels(wheels(tmp_path / "3", "new"), output, root=tmp_path)
    assert published(output) == dict.fromkeys(NAMES, "new")
    assert tidy(output) == ALL


def killed(number: int, after: bool, made: list[NewWheel], output: Path, root: Path) -> bool:
    """Publish in a process that ends at once before or after rename ``number``; return whether there were so many."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
    rename, calls = Path.replace, itertools.count()

    def replace(path: Path, target: Path) -> Path:
        is_last = next(calls) == number
        try:
            if is_last and not after:
                os._exit(KILLED)
            return rename(path, target)
        finally:
            if is_last:
                os._exit(KILLED)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "replace", replace)
            publish_wheels(made, output, root=root)
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "replaced"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_rename(tmp_path: Path, is_first: bool, after: bool) -> None:
    """At no moment does a wheel stand beside a wrong record, and the next run tidies up."""
    old, new = wheels(tmp_path / "old", "old"), wheels(tmp_path / "new", "new")
    for number in itertools.count():
        output = tmp_path / f"dist-{number}"
        if not is_first:
            publish_wheels(old, output, root=tmp_path)
        was_killed = killed(number, after, new, output, tmp_path)
        found = published(output)
        assert set(found.values()) <= {"old", "new"}
        assert is_first or set(found) == set(NAMES)
        if not was_killed:
            break
        publish_wheels(new, output, root=tmp_path)
        assert published(output) == dict.fromkeys(NAMES, "new")
        assert tidy(output) == ALL
    assert number >= 10
    assert published(output) == dict.fromkeys(NAMES, "new")


@pytest.mark.parametrize("number", range(6))
def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    output = tmp_path / "dist"
    publish_wheels(wheels(tmp_path / "1", "old"), output, root=tmp_path)
    real, copies = publish.shutil.copyfileobj, iter(range(100))

    def copy(source: object, target: object, length: int) -> None:
        if next(copies) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, target, length)  # type: ignore[arg-type]

    monkeypatch.setattr(publish.shutil, "copyfileobj", copy)
    with pytest.raises(OutputError, match="No space left"):
        publish_wheels(wheels(tmp_path / "2", "new"), output, root=tmp_path)
    assert published(output) == dict.fromkeys(NAMES, "old")
    assert tidy(output) == ALL


def test_a_failed_rename_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "dist"
    publish_wheels(wheels(tmp_path / "1", "old"), output, root=tmp_path)
    rename = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if target.name == NAMES[0]:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OutputError, match="Permission denied"):
        publish_wheels(wheels(tmp_path / "2", "new"), output, root=tmp_path)
    assert published(output) == dict.fromkeys(NAMES, "old")
    assert tidy(output) == ALL
