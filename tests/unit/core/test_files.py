"""Generated files stay in the project, whatever a checkout brings."""

from __future__ import annotations

import io
import os
import tarfile
import time
import tracemalloc
from pathlib import Path

import pytest

from bakery.core.errors import DriftError, OutputError
from bakery.core.files import compare, tar_members, write

NAME = "bake/one.hcl"


def test_files_are_written_once_and_compared(tmp_path: Path) -> None:
    assert write(tmp_path, {NAME: "a\n"}) == [NAME]
    assert write(tmp_path, {NAME: "a\n"}) == []
    compare(tmp_path, {NAME: "a\n"})
    with pytest.raises(DriftError):
        compare(tmp_path, {NAME: "b\n"})


@pytest.mark.parametrize("link", ["bake", NAME])
def test_a_link_that_leads_out_is_neither_written_nor_read(tmp_path: Path, link: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (outside / "one.hcl").write_text("of somebody else\n")
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(outside if link == "bake" else outside / "one.hcl")
    for call in (write, compare):
        with pytest.raises(OutputError, match="a link"):
            call(root, {NAME: "mine\n"})
    assert (outside / "one.hcl").read_text() == "of somebody else\n"
    assert [path.name for path in outside.iterdir()] == ["one.hcl"]


def test_a_link_of_the_name_that_a_new_file_has_first_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "root" / "bake").mkdir(parents=True)
    link = tmp_path / "root" / "bake" / f".one.hcl.{os.getpid()}.tmp"
    link.symlink_to(tmp_path / "outside")
    write(tmp_path / "root", {NAME: "mine\n"})
    assert not (tmp_path / "outside").exists()
    assert (tmp_path / "root" / NAME).read_text() == "mine\n"


def test_a_folder_that_is_a_link_is_refused_also_inside_the_project(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "bake").symlink_to("elsewhere")
    with pytest.raises(OutputError, match="a link, or not a folder"):
        write(tmp_path, {NAME: "a\n"})
    assert not list((tmp_path / "elsewhere").iterdir())


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf()


FOLDER = header("out", tarfile.DIRTYPE)
BOMBS = {
    "folders": (FOLDER, 50_000, b""),
    "attributes": (header("x", tarfile.XHDTYPE, 20 << 20), 1, b"10 a=bcde\n" * 2),
    "name": (header("x", tarfile.GNUTYPE_LONGNAME, 20 << 20), 1, b"x" * 20),
    "headers": (header("x", tarfile.XHDTYPE, 10) + b"10 a=bcde\n" + bytes(502), 20_000, b""),
    "claims": (header("x", tarfile.XHDTYPE, 8 << 30), 1, b""),
}
"""What they begin with, how often, and what then comes a million times."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_tar_that_is_a_bomb(tmp_path: Path, name: str) -> None:
    """A container's output, at most 1 GiB, took gigabytes and hours."""
    head, times, body = BOMBS[name]
    data = io.BytesIO(head * times + body * (1 << 20) + FOLDER * (name != "claims") + bytes(1024))
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(tarfile.TarError):
        for _ in tar_members(data, 1000):
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - began < 3
    assert peak < 8 << 20


def test_members_of_a_tar() -> None:
    data = io.BytesIO(header("d", tarfile.DIRTYPE) + header("a", size=3) + b"abc" + bytes(509) + bytes(1024))
    assert [(member.name, content and content.read()) for member, content in tar_members(data, 2)] == [
        ("d", None),
        ("a", b"abc"),
    ]
