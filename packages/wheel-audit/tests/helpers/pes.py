"""A writer of tiny PE files: headers, sections, and tables of imports, as Windows' loader reads them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

MACHINES = {"amd64": 0x8664, "arm64": 0xAA64, "x86": 0x14C}
_ADDRESS, _OFFSET = 0x1000, 0x400


def image(
    machine: str = "amd64",
    *,
    imports: Sequence[str] = ("KERNEL32.dll", "VCRUNTIME140.dll", "api-ms-win-crt-runtime-l1-1-0.dll", "python311.dll"),
    delayed: Sequence[str] = (),
    library: bool = True,
    managed: bool = False,
    floor: tuple[int, int] = (6, 0),
    sections: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return a DLL, or a program; its tables are real, its code is nothing; ``sections`` are more, with their content."""
    wide = machine != "x86"
    data = bytearray()
    at_imports = _table(data, imports, 20, 12)
    at_delayed = _table(data, delayed, 32, 4)
    data += bytes(-len(data) % 512)
    directories = [0] * 32
    directories[2], directories[26] = at_imports, at_delayed
    directories[28] = _ADDRESS if managed else 0
    optional = bytearray(112 if wide else 96)
    struct.pack_into("<H", optional, 0, 0x20B if wide else 0x10B)
    struct.pack_into("<HH", optional, 48, *floor)
    struct.pack_into("<I", optional, len(optional) - 4, 16)
    optional += struct.pack("<32I", *directories)
    flags = 0x22 | (0x2000 if library else 0)
    coff = struct.pack(
        "<4sHHIIIHH", b"PE\0\0", MACHINES[machine], 1 + len(sections or {}), 0, 0, 0, len(optional), flags
    )
    section = struct.pack("<8sIIIIIIHHI", b".rdata", len(data), _ADDRESS, len(data), _OFFSET, 0, 0, 0, 0, 0x40000040)
    for name, content in (sections or {}).items():
        at = _OFFSET + len(data)
        stored = len(content) + -len(content) % 512
        section += struct.pack(
            "<8sIIIIIIHHI", name.encode(), len(content), 0x10000 + at, stored, at, 0, 0, 0, 0, 0x40000040
        )
        data += content.ljust(stored, b"\0")
    head = b"MZ" + bytes(58) + struct.pack("<I", 64) + coff + bytes(optional) + section
    return head.ljust(_OFFSET, b"\0") + bytes(data)


def _table(data: bytearray, names: Sequence[str], entry: int, name_at: int) -> int:
    """Append a table of imports and its names; return its address, 0 for no names."""
    if not names:
        return 0
    start = len(data)
    data += bytes(entry * (len(names) + 1))
    for number, name in enumerate(names):
        struct.pack_into("<I", data, start + entry * number + name_at, _ADDRESS + len(data))
        data += name.encode() + b"\0"
    return _ADDRESS + start
