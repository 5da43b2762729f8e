"""Writers of small files that are made to cost a reader far more than their size: one for each way that was found."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

from elfs import shared_object
from fatbins import cubin, entry, fatbin
from machos import thin
from wheels import EXTENSION, TAG, write_wheel

COUNT = 19_000
"""Rows of a table: a limit of the rows of one table was no limit of the work."""

INFO = "demo-1.0.dist-info"
_LOAD, _DYNAMIC = 1, 2


def elf(
    *,
    segments: list[tuple[int, int, int]] | None = None,
    sections: list[tuple[int, int, int, int]] | None = None,
    body: bytes = b"",
    names: int = 0,
) -> bytes:
    """Return an object whose tables are as given: (type, offset, size), (name, type, offset, size).

    Offsets are relative to ``body``, which begins behind the tables; ``names`` is the section with the names.
    """
    segments, sections = segments or [], sections or []
    at = 64 + 56 * len(segments) + 64 * len(sections)
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header = ident + struct.pack(
        "<HHIQQQIHHHHHH",
        *(3, 62, 1, 0, 64, 64 + 56 * len(segments) if sections else 0, 0, 64, 56, len(segments), 64),
        *(len(sections), names),
    )
    rows = b"".join(
        struct.pack("<IIQQQQQQ", kind, 5, at + begin, begin, 0, size, size, 8) for kind, begin, size in segments
    )
    rows += b"".join(
        struct.pack("<IIQQQQIIQQ", name, kind, 2, 0, at + begin, size, 0, 0, 8, 0)
        for name, kind, begin, size in sections
    )
    return header + rows + body


def section_names() -> bytes:
    """19,000 section names in one text of 200 kB."""
    text = b"n" * 200_000 + b"\0"
    return elf(sections=[(number, 3, 0, len(text)) for number in range(COUNT)], body=text)


def short_names() -> bytes:
    """19,000 section names of 4,000 bytes, which no limit of a name's length refuses."""
    text = (b"n" * 4_000 + b"\0") * 20
    return elf(sections=[(number, 3, 0, len(text)) for number in range(COUNT)], body=text)


def needed_names() -> bytes:
    """19,000 libraries whose names are ends of one text of 2 MB."""
    text = b"n" * 2_000_000 + b"\0"
    rows = [(1, number) for number in range(COUNT)] + [(5, 0), (10, len(text)), (0, 0)]
    table = b"".join(struct.pack("<QQ", *row) for row in rows)
    return elf(segments=[(_LOAD, 0, len(text)), (_DYNAMIC, len(text), len(table))], body=text + table)


def fatbin_sections() -> bytes:
    """19,000 sections with device code, all of them the same zeros."""
    names, zeros = b"\0.nv_fatbin\0", bytes(1 << 20)
    table = [(0, 3, 0, len(names)), *[(1, 1, len(names), len(zeros))] * COUNT]
    return elf(sections=table, body=names + zeros)


def loaded_segments() -> bytes:
    """19,000 segments that are searched for device code, all of them the same zeros."""
    return elf(segments=[(_LOAD, 0, 1 << 20)] * COUNT, body=bytes(1 << 20))


def dynamic_segments() -> bytes:
    """19,000 dynamic sections, all of them the same 19,000 tags."""
    tags = struct.pack("<QQ", 21, 0) * COUNT + bytes(16)
    return elf(segments=[(_DYNAMIC, 0, len(tags))] * COUNT, body=tags)


def symbols() -> bytes:
    """A million symbols that all have the same name."""
    row = struct.pack("<IBBHQQ", 1, 0x12, 0, 0, 0, 0)
    return shared_object(sections={".dynsym": row * 1_000_000})


def lz4_images() -> bytes:
    """Device code in 19,000 sections that is the same compressed image, slow to unpack."""
    head = cubin(100)[:7] + bytes([65, 8]) + cubin(100)[9:]
    block = b"\xf0" + bytes([len(head) - 15]) + head + b"\x01\x00" + b"\x10x\x01\x00" * 60_000
    code = fatbin(entry(2, 100, block, flags=0x2000))
    names = b"\0.nv_fatbin\0"
    table = [(0, 3, 0, len(names)), *[(1, 1, len(names), len(code))] * 1000]
    return elf(sections=table, body=names + code)


def chained(count: int) -> dict[str, bytes]:
    """Libraries each of which needs the next: what the first reaches is all of them."""
    return {
        f"demo/l{number}.so": shared_object(
            soname=f"l{number}.so", needed=[f"l{number + 1}.so"], versions={}, wanted=["f"], defined=["g"]
        )
        for number in range(count)
    }


def of_objects(data: bytes, count: int = 1) -> dict[str, bytes]:
    """Return ``count`` copies as the files of a wheel."""
    return {EXTENSION if not number else f"demo/{number}.so": data for number in range(count)}


def mach_names() -> bytes:
    """A Mach-O file that needs 9,000 libraries."""
    return thin(needed=tuple(f"@rpath/n{number}.dylib" for number in range(9_000)))


METADATA = "Metadata-Version: 2.1\nName: Demo\nVersion: 1.0\n"
MANY = ".".join("abcdefghijklmnopqrstuvwxyz" * 10)


def with_metadata(text: str) -> Callable[[Path], Path]:
    return lambda folder: write_wheel(folder, metadata=METADATA + text)


def spelled(name: str, count: int) -> str:
    """Headers that are not ASCII; each name has other capital letters."""
    spellings = ["".join(pair) for pair in product(*((letter.lower(), letter.upper()) for letter in name))]
    return "".join(f"{spellings[number % 400]}: \xa0\n" for number in range(count))


def with_files(make: Callable[[], dict[str, bytes]]) -> Callable[[Path], Path]:
    return lambda folder: write_wheel(folder, files=make())


def without_a_name(folder: Path) -> Path:
    """A member whose name is empty."""
    path = write_wheel(folder, unlisted={"x": b"1"})
    data = path.read_bytes()
    for magic, at in ((b"PK\x03\x04", 26), (b"PK\x01\x02", 28)):
        place = data.rindex(magic, 0, data.index(b"PK\x05\x06"))
        head = 30 if magic == b"PK\x03\x04" else 46
        data = data[: place + at] + bytes(2) + data[place + at + 2 : place + head] + data[place + head + 1 :]
    end = data.rindex(b"PK\x05\x06")
    size, start = struct.unpack_from("<II", data, end + 12)
    path.write_bytes(data[: end + 12] + struct.pack("<II", size - 1, start - 1) + data[end + 20 :])
    return path


def long_paths(folder: Path) -> Path:
    """Members whose paths keep a search for a suffix busy."""
    return write_wheel(folder, unlisted={f"demo/{number}" + ".cpython-" * 7_000: b"" for number in range(5)})


WHEELS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "short section names": ("audit-limit", with_files(lambda: of_objects(short_names()))),
    "section names": ("elf-unreadable", with_files(lambda: of_objects(section_names()))),
    "needed names": ("elf-unreadable", with_files(lambda: of_objects(needed_names()))),
    "device code over the same zeros": ("audit-limit", with_files(lambda: of_objects(fatbin_sections(), 20))),
    "segments over the same zeros": ("audit-limit", with_files(lambda: of_objects(loaded_segments(), 20))),
    "dynamic sections": ("audit-limit", with_files(lambda: of_objects(dynamic_segments(), 12))),
    "METADATA of 36 MB": ("audit-limit", with_metadata("Classifier: x\n" * 2_600_000)),
    "METADATA with 50,000 fields": ("audit-limit", with_metadata("".join(f"X{n}: y\n" for n in range(50_000)))),
    "METADATA of encoded words": ("audit-limit", with_metadata("Summary: \xff" + "=?a?q?" * 10_000 + "\n")),
    "METADATA with one field 9,000 times": ("metadata-field", with_metadata("Name: \xa0\n" * 9000)),
    "METADATA with one field in 400 spellings": ("audit-limit", with_metadata(spelled("Requires-Dist", 9000))),
    "description of empty lines": ("audit-limit", with_metadata("\n" + "\n" * 3_000_000)),
    "RECORD of 60 MB": (
        "audit-limit",
        lambda folder: write_wheel(folder, edit_record=lambda text: "a,,\n" * 15_000_000),
    ),
    "RECORD of a million lines": (
        "audit-limit",
        lambda folder: write_wheel(folder, edit_record=lambda text: "a,,\n" * 1_000_000),
    ),
    "symbols of one name": ("audit-limit", with_files(lambda: of_objects(symbols()))),
    "one image that is slow to unpack": ("audit-limit", with_files(lambda: of_objects(lz4_images()))),
    "long paths": ("audit-limit", long_paths),
    "libraries in a chain": ("", with_files(lambda: chained(600))),
    "Mach-O with many libraries": ("", with_files(lambda: {"demo/x.so": mach_names()})),
    "a member without a name": ("archive-path", without_a_name),
    "Version of 6,000 digits": (
        "metadata-version",
        lambda folder: write_wheel(folder, metadata="Metadata-Version: 2.1\nName: Demo\nVersion: " + "1" * 6000 + "\n"),
    ),
    "Requires-Dist in brackets": ("metadata-field", with_metadata("Requires-Dist: torch; " + "(" * 9000 + "\n")),
    "Requires-Dist of 6,000 digits": ("metadata-field", with_metadata("Requires-Dist: torch==1." + "1" * 6000 + "\n")),
    "Requires-Python of 6,000 digits": ("metadata-field", with_metadata("Requires-Python: >3." + "1" * 6000 + "\n")),
    "Tag of many tags": (
        "metadata-tags",
        lambda folder: write_wheel(
            folder, wheel=f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {MANY}-{MANY}-{MANY}\n"
        ),
    ),
    "a wheel inside with many tags": (
        "record-unlisted",
        lambda folder: write_wheel(folder, unlisted={f"demo-1-{MANY}-{MANY}-{MANY}.whl": b""}),
    ),
    "a wheel inside of 6,000 digits": (
        "audit-limit",
        lambda folder: write_wheel(folder, unlisted={f"demo-{'1' * 6000}-py3-none-any.whl": b""}),
    ),
    "too much to unpack": ("archive-bomb", with_files(lambda: {"demo/zeros": bytes(300 << 20)})),
}
"""What each of them is → the finding that it gets, and who writes it. With a promise of torch, all are errors."""


def vmfb_declarations() -> bytes:
    """A module of 19 kB with declarations that do not end."""
    return b"\0\0\0\0IREE\0\0\0\0" + b"sync func @f() -> (" * 1000 + b"\0"


def vmfb_spirv(folder: Path) -> Path:
    """A module with SPIR-V that begins again in each of its words, and never ends as it should."""
    count = 30_000
    words = b"".join(
        struct.pack("<I", 5 * (count - number) - 1) + b"\x03\x02\x23\x07" + struct.pack("<3I", 1, 1, 1)
        for number in range(count)
    )
    path = folder / "x.vmfb"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("module.fb", b"\0\0\0\0IREE\0\0\0\0")
        info = zipfile.ZipInfo("a_vulkan_spirv_fb.fb")
        archive.writestr(info, bytes(4) + words)
    return path


def mlir_types() -> str:
    """A module of 95 kB with types that do not end."""
    return "func.func @f() -> <\n" * 4_750


def lines(other: str) -> bytes:
    """290 kB of lines that differ."""
    return "".join(f"{other}{number}\n" for number in range(40_000)).encode()


def odd_name(name: str, folder: Path) -> Path:
    return write_wheel(folder, TAG, filename=name)
