"""Generated files stay in the project, whatever a checkout brings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bakery.core.errors import DriftError, OutputError
from bakery.core.files import compare, write

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
        with pytest.raises(OutputError, match="leads out of"):
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


def test_a_link_inside_the_project_is_fine(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "bake").symlink_to("elsewhere")
    write(tmp_path, {NAME: "a\n"})
    assert (tmp_path / "elsewhere" / "one.hcl").read_text() == "a\n"
