"""What counts as a difference from the wheel of pip, and what does not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from elfs import shared_object
from wheel_differences import differences, read
from wheels import EXTENSION, write_wheel

LINUX = "cp311-cp311-linux_x86_64"
METADATA = "Metadata-Version: 2.1\nName: Demo\nVersion: 1.0\nRequires-Dist: a\nRequires-Dist: b\n\nA demo.\n"


def test_what_repair_does_is_no_difference(tmp_path: Path) -> None:
    by_pip = write_wheel(tmp_path, LINUX, {EXTENSION: shared_object()})
    libraries = {"demo.libs/libz-1234.so": b"\x7fELF", "demo-1.0.dist-info/sboms/auditwheel.cdx.json": b"{}"}
    repaired = write_wheel(tmp_path, files={EXTENSION: shared_object(needed=("libz-1234.so",)), **libraries})
    assert differences(read(by_pip), read(repaired)) == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ["file missing: demo/data.csv"]),
        ({"demo/data.csv": b"1", "demo/secret.local": b"x"}, ["file added: demo/secret.local"]),
        ({"demo/data.csv": b"2"}, ["bytes of demo/data.csv"]),
        ({"demo/data.csv": b"1", "other.libs/notes/a": b"1"}, ["file added: other.libs/notes/a"]),
    ],
)
def test_files(files: dict[str, bytes], expected: list[str], tmp_path: Path) -> None:
    by_pip = write_wheel(tmp_path, LINUX, {"demo/data.csv": b"1"})
    assert differences(read(by_pip), read(write_wheel(tmp_path, files=files))) == expected


def test_modes(tmp_path: Path) -> None:
    by_pip = write_wheel(tmp_path, LINUX, {"demo/run": b"1"}, modes={"demo/run": 0o100755})
    ours = write_wheel(tmp_path, files={"demo/run": b"1"})
    assert differences(read(by_pip), read(ours)) == ["mode of demo/run: 100755 is 100644"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("Requires-Dist: b\n", "", "METADATA, Requires-Dist: a | b is a"),
        (
            "Requires-Dist: a\nRequires-Dist: b",
            "Requires-Dist: b\nRequires-Dist: a",
            "METADATA, Requires-Dist: a | b is b | a",
        ),
        ("Name", "License-File: LICENSE\nName", "METADATA, License-File: none is LICENSE"),
        ("A demo.", "Another.", "METADATA, (description): A demo.\n is Another.\n"),
    ],
)
def test_metadata(old: str, new: str, expected: str, tmp_path: Path) -> None:
    by_pip = write_wheel(tmp_path, LINUX, metadata=METADATA)
    ours = write_wheel(tmp_path, metadata=METADATA.replace(old, new))
    assert differences(read(by_pip), read(ours)) == [expected]


def test_version_and_tags(tmp_path: Path) -> None:
    by_pip = write_wheel(tmp_path, LINUX)
    pure = write_wheel(tmp_path, "py3-none-any", filename="demo-0-1-py3-none-any.whl")
    assert differences(read(by_pip), read(pure)) == [
        "version: 1.0 is 0", "build tag:  is 1", "Python and ABI: cp311-cp311 is py3-none",
        "platform: linux_x86_64 is any", "WHEEL, Root-Is-Purelib: false is true",
        "WHEEL, Tag: cp311-cp311-linux is py3-none-any",
    ]  # fmt: skip


def test_the_version_in_a_folder_name_is_one_difference(tmp_path: Path) -> None:
    by_pip = read(write_wheel(tmp_path, LINUX, {"demo-1.0.data/scripts/run": b"1"}))
    other = dataclasses.replace(by_pip, name=by_pip.name.replace("1.0", "2.0"))
    assert "demo.data/scripts/run" in by_pip.files
    assert differences(by_pip, other) == ["version: 1.0 is 2.0"]


def test_a_wrong_record_is_told(tmp_path: Path) -> None:
    by_pip = write_wheel(tmp_path, LINUX)
    ours = write_wheel(
        tmp_path, unlisted={"demo/__init__.pyi": b""}, edit_record=lambda text: f"{text}gone.py,sha256=x,1\n"
    )
    assert differences(read(by_pip), read(ours)) == [
        "file added: demo/__init__.pyi",
        "RECORD is wrong about demo/__init__.pyi",
        "RECORD is wrong about gone.py",
    ]
