"""A wheel that is written anew: the same files, and nothing of the machine."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from elfs import shared_object
from wheels import EXTENSION, write_wheel

from bakery.toolchains import programs
from wheel_audit.auditor import audit_wheel
from wheel_audit.byte_difference import differences

pytestmark = pytest.mark.usefixtures("no_tools")

PROGRAM = Path(programs.__file__).parent / "archive.py"
FILES = {"demo/b.py": b"b", "demo/a.py": b"a", "demo/run.sh": b"#!/bin/sh\n"}


def steady(*folders: Path, epoch: str = "1700000001") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, *folders],
        env={"SOURCE_DATE_EPOCH": epoch} if epoch else {},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_a_machine_leaves_in_an_archive_goes(tmp_path: Path) -> None:
    paths = []
    for name, files, bits in (("x", FILES, 0o644), ("y", dict(reversed(FILES.items())), 0o664)):
        (tmp_path / name).mkdir()
        modes = dict.fromkeys(files, 32768 | bits) | {"demo/run.sh": 0o100000 | bits | 0o110}
        paths.append(write_wheel(tmp_path / name, "py3-none-any", files, modes=modes))
    assert {item.part.partition(",")[0] for item in differences(*paths)} >= {"mode", "order of members", "lines"}
    done = steady(tmp_path / "x", tmp_path / "y")
    assert (done.returncode, done.stderr) == (0, "")
    assert differences(*paths) == ()
    with zipfile.ZipFile(paths[0]) as archive:
        names = archive.namelist()
        assert names == [
            *("demo/__init__.py", "demo/a.py", "demo/b.py", "demo/run.sh"),
            *(f"demo-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")),
        ]
        assert {info.date_time for info in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
        assert {info.filename for info in archive.infolist() if info.external_attr >> 16 == 0o100755} == {"demo/run.sh"}
        assert {info.external_attr >> 16 for info in archive.infolist()} == {0o100644, 0o100755}
        assert archive.read("demo/b.py") == b"b"
    report = audit_wheel(paths[0])
    assert not [finding for finding in report.findings if finding.check.startswith(("record", "archive"))]
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == [paths[0].name]


def test_the_numbers_of_nvccs_processes_go(tmp_path: Path) -> None:
    paths = []
    for name, number in (("x", b"0000286a"), ("y", b"000028f6")):
        (tmp_path / name).mkdir()
        told = b"\0tmpxft_" + number + b"_00000000-6_kernels.cudafe1.cpp\0"
        # One name lies where the program's pieces of 1 MiB meet.
        content = shared_object(
            sections={".strtab": told, ".data": bytes(3), ".more": bytes((1 << 20) - 900) + told * 40}
        )
        text = b"# tmpxft_0000286a_ in a text stays\n"
        paths.append(write_wheel(tmp_path / name, files={EXTENSION: content, "demo/a.py": text}))
    assert {(item.file, item.part) for item in differences(*paths)} >= {(EXTENSION, "section .strtab")}
    assert steady(tmp_path / "x", tmp_path / "y").returncode == 0
    assert differences(*paths) == ()
    with zipfile.ZipFile(paths[0]) as archive:
        content = archive.read(EXTENSION)
        assert content.count(b"tmpxft_00000000_00000000-6_kernels") == 41
        assert b"286a" not in content
        assert archive.read("demo/a.py") == text
    assert not [finding for finding in audit_wheel(paths[0]).findings if finding.check.startswith("record")]


def test_what_was_wrong_stays_wrong(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, edit_record=lambda text: text.replace("sha256=", "sha256=A", 1))
    before = [item.message for item in audit_wheel(wheel).findings if item.check.startswith("record")]
    assert steady(tmp_path).returncode == 0
    assert before
    assert [item.message for item in audit_wheel(wheel).findings if item.check.startswith("record")] == before


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path)
    steady(tmp_path)
    once = wheel.read_bytes()
    steady(tmp_path)
    assert wheel.read_bytes() == once


def test_a_time_before_archives(tmp_path: Path) -> None:
    for epoch in ("", "5"):
        wheel = write_wheel(tmp_path)
        assert steady(tmp_path, epoch=epoch).returncode == 0
        with zipfile.ZipFile(wheel) as archive:
            assert archive.getinfo(EXTENSION).date_time == (1980, 1, 1, 0, 0, 0)


@pytest.mark.parametrize("case", ["twice", "damaged"])
def test_what_is_no_wheel(tmp_path: Path, case: str) -> None:
    wheel = write_wheel(tmp_path)
    if case == "twice":
        with zipfile.ZipFile(wheel, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(EXTENSION, b"x")
    else:
        wheel.write_bytes(wheel.read_bytes()[:-30])
    before = wheel.read_bytes()
    done = steady(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("archive: ")
    assert "Traceback" not in done.stderr
    assert wheel.read_bytes() == before
