"""Two builds of one wheel: each planted difference is found, named, and is the only one."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from elfs import shared_object
from fatbins import ELF, PTX, entry, fatbin
from wheels import EXTENSION, write_wheel

from wheel_audit.byte_difference import Difference, differences

INFO = "demo-1.0.dist-info"


def pair(tmp_path: Path, old: dict[str, bytes], new: dict[str, bytes]) -> tuple[Difference, ...]:
    """Return the differences between two wheels of these files, without those that RECORD repeats."""
    paths = []
    for name, files in (("a", old), ("b", new)):
        (tmp_path / name).mkdir()
        paths.append(write_wheel(tmp_path / name, files=files))
    return tuple(item for item in differences(*paths) if item.file != f"{INFO}/RECORD")


def rewritten(
    path: Path,
    change: Callable[[zipfile.ZipInfo], None] = lambda info: None,
    *,
    order: Callable[[list[str]], list[str]] = list,
    level: int | None = None,
) -> Path:
    """Write a copy of a wheel, same content, with other headers, in another order or packed with another level."""
    copy = path.parent / "copy" / path.name
    copy.parent.mkdir()
    with zipfile.ZipFile(path) as origin, zipfile.ZipFile(copy, "w") as target:
        for name in order(origin.namelist()):
            info = origin.getinfo(name)
            content = origin.read(name)
            change(info)
            target.writestr(info, content, compresslevel=level)
    return copy


def copied(path: Path, change: Callable[[bytes], bytes]) -> Path:
    """Write a copy of a wheel with changed bytes."""
    copy = path.parent / "copy" / path.name
    copy.parent.mkdir()
    copy.write_bytes(change(path.read_bytes()))
    return copy


def test_the_same_bytes_are_the_same(tmp_path: Path) -> None:
    assert pair(tmp_path, {EXTENSION: shared_object()}, {EXTENSION: shared_object()}) == ()


def test_another_name_of_the_same_bytes(tmp_path: Path) -> None:
    first = write_wheel(tmp_path)
    second = tmp_path / "demo-2.0-py3-none-any.whl"
    second.write_bytes(first.read_bytes())
    assert differences(first, second) == (Difference("", "file name", (first.name,), (second.name,)),)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("date_time", (2024, 1, 2, 3, 4, 6), ("date", "1980-01-01 00:00:00", "2024-01-02 03:04:06")),
        ("external_attr", 0o100664 << 16, ("mode", "-rw-r--r--", "-rw-rw-r--")),
        ("compress_type", zipfile.ZIP_STORED, ("compression", "deflated", "stored")),
    ],
)
def test_headers_of_members(field: str, value: object, said: tuple[str, ...], tmp_path: Path) -> None:
    first = write_wheel(tmp_path, files={"demo/data.txt": b"a" * 9999})
    found = differences(first, rewritten(first, lambda info: setattr(info, field, value)))
    assert {(item.part, *item.old, *item.new) for item in found} == {said}
    assert [item.file for item in found] == zipfile.ZipFile(first).namelist()


def test_the_order_of_members(tmp_path: Path) -> None:
    first = write_wheel(tmp_path)
    (found,) = differences(first, rewritten(first, order=lambda names: [names[1], names[0], *names[2:]]))
    assert found.part == "order of members, from number 1 on"
    assert found.old[0] == found.new[1] == "demo/__init__.py"


def test_a_level_of_compression(tmp_path: Path) -> None:
    text = " ".join(random.Random(1).choices(["one", "two", "three", "four"], k=4000)).encode()
    first = write_wheel(tmp_path, files={"demo/data.txt": text})
    found = {item.file: item for item in differences(first, rewritten(first, level=1))}
    assert found["demo/data.txt"].part == "compressed form of the same content"
    assert found["demo/data.txt"].cause


def test_bytes_between_the_members(tmp_path: Path) -> None:
    first = write_wheel(tmp_path)
    (found,) = differences(first, copied(first, lambda data: b"#!/bin/sh\n" + data))
    assert (found.file, found.part) == ("", "layout of the archive")
    assert "at 0x0: 50 4b" in found.old[0]


def test_files_that_one_of_them_has(tmp_path: Path) -> None:
    found = pair(tmp_path, {"demo/a.txt": b"abc"}, {"demo/b.txt": b"abcd"})
    assert found == (
        Difference("demo/a.txt", "the file itself", old=("3 bytes",)),
        Difference("demo/b.txt", "the file itself", new=("4 bytes",)),
    )


def test_lines_of_texts(tmp_path: Path) -> None:
    old = b"import os\nBUILT = '2026-01-02'\nx = 1\n"
    (found,) = pair(tmp_path, {"demo/a.py": old}, {"demo/a.py": old.replace(b"2026", b"2027")})
    assert found == Difference("demo/a.py", "lines", ("BUILT = '2026-01-02'",), ("BUILT = '2027-01-02'",), "a time")


def test_line_ends(tmp_path: Path) -> None:
    (found,) = pair(tmp_path, {"demo/a.py": b"a\nb\n"}, {"demo/a.py": b"a\r\nb\n"})
    assert (found.file, found.part) == ("demo/a.py", "line ends")


def test_data(tmp_path: Path) -> None:
    (found,) = pair(tmp_path, {"demo/a.bin": b"\0" * 70 + b"\1\2"}, {"demo/a.bin": b"\0" * 70 + b"\1\3"})
    assert found.part == "content"
    assert (found.old, found.new) == (("72 bytes; at 0x47: 02",), ("72 bytes; at 0x47: 03",))


def test_sections(tmp_path: Path) -> None:
    old = {".text": b"\1" * 64, ".comment": b"GCC 12.2.0\0", ".note": b"x" * 8}
    found = pair(
        tmp_path,
        {EXTENSION: shared_object(sections=old)},
        {EXTENSION: shared_object(sections={**old, ".text": b"\1" * 63 + b"\2", ".comment": b"GCC 13.3.0\0"})},
    )
    assert found == (
        Difference(EXTENSION, "section .text", ("64 bytes; at 0x3f: 01",), ("64 bytes; at 0x3f: 02",)),
        Difference(EXTENSION, "section .comment", ("GCC 12.2.0",), ("GCC 13.3.0",)),
    )


@pytest.mark.parametrize(
    ("one", "other", "cause"),
    [
        (b"tmpxft_0000002a_00000000-6_kernels.cudafe1.cpp", b"tmpxft_0000002b_00000000-6_kernels.cudafe1.cpp", "nvcc"),
        (b"/tmp/tmpabc/src/core.cpp", b"/tmp/tmpxyz/src/core.cpp", "a path"),
        (b"built 12:01:59", b"built 12:02:00", "a time"),
        (b"Jan  2 2026", b"Jan  3 2026", "a time"),
        (b"something", b"another thing", ""),
    ],
)
def test_causes(tmp_path: Path, one: bytes, other: bytes, cause: str) -> None:
    texts = ({".strtab": b"\0" + text + b"\0"} for text in (one, other))
    (found,) = pair(tmp_path, *({EXTENSION: shared_object(sections=sections)} for sections in texts))
    assert found.part == "section .strtab"
    assert (found.old, found.new) == ((one.decode(),), (other.decode(),))
    assert cause in found.cause
    assert bool(found.cause) == bool(cause)


def test_programs_of_device_code(tmp_path: Path) -> None:
    def wheel(*names: bytes) -> dict[str, bytes]:
        programs = fatbin(entry(ELF, 80, b"same" * 4), entry(ELF, 90, names[0] * 2), entry(PTX, 90, names[1] * 2))
        return {EXTENSION: shared_object(sections={".nv_fatbin": programs})}

    (found,) = pair(tmp_path, wheel(b"tmpxft_0000002a_", b"// PTX\n"), wheel(b"tmpxft_0000002b_", b"// PTX\n"))
    assert found.part == "section .nv_fatbin"
    assert found.old == found.new == ("program 2: machine code for sm_90, 32 bytes",)
    assert found.cause == "names of nvcc's temporary files"


def test_a_section_that_one_of_them_has(tmp_path: Path) -> None:
    one, other = shared_object(sections={".a": b"12345678"}), shared_object(sections={".a": b"12345678", ".b": b"1"})
    parts = {item.part for item in pair(tmp_path, {EXTENSION: one}, {EXTENSION: other})}
    assert "section .b" in parts


def test_headers_of_an_object(tmp_path: Path) -> None:
    one = bytearray(shared_object())
    one[0x30:0x34] = b"\1\0\0\0"  # e_flags
    (found,) = pair(tmp_path, {EXTENSION: bytes(one)}, {EXTENSION: shared_object()})
    assert found.part == "headers and space between sections"


def test_damaged_objects(tmp_path: Path) -> None:
    found = pair(tmp_path, {EXTENSION: b"\x7fELF" + b"\xff" * 90}, {EXTENSION: b"\x7fELF" + b"\xfe" * 90})
    assert [item.part.partition(",")[0] for item in found] == ["sections", "content"]


def test_no_archive(tmp_path: Path) -> None:
    first = write_wheel(tmp_path)
    (found,) = differences(first, copied(first, lambda data: data[:100]))
    assert "cannot be read" in found.part
