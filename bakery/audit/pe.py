"""PE files as Windows' loader sees them: machine, the oldest system, and the libraries they import.

Layouts from Microsoft's "PE Format". Only headers and the import tables are read, each within bounds.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

from bakery.audit.binary import UnreadableBinary, text_at
from bakery.audit.limits import LONGEST_NAME, Budget
from bakery.audit.tags import Release, release_text

_MOST_SECTIONS = 200
"""Sections that are believed: they are gone through for each name. Windows itself took at most 96 for long."""
_MOST_IMPORTS = 5000

_MACHINES = {0x8664: "amd64", 0xAA64: "arm64", 0x14C: "x86", 0x1C4: "arm", 0xA641: "arm64ec"}
_WIDE = {0x10B: False, 0x20B: True}
_IMPORTS, _DELAYED, _MANAGED = 1, 13, 14
_DLL = 0x2000


@dataclass(frozen=True, slots=True)
class PeImage:
    """One PE library, extension module or program.

    Attributes:
        path: inside the wheel.
        size: in bytes.
        machine: as in platform tags: ``amd64``, ``arm64``, ``x86``; a number for others.
        is_library: it is a DLL, as extension modules are; else a program.
        managed: it is .NET code, which runs on any machine.
        floor: the oldest Windows that its header allows, as (6, 0).
        imports: the DLLs it needs when it is loaded, as written.
        delayed: the DLLs it needs when they are first called.
    """

    path: str
    size: int
    machine: str
    is_library: bool
    managed: bool
    floor: Release
    imports: tuple[str, ...]
    delayed: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name

    @property
    def soname(self) -> str | None:
        """None: a DLL is known by its file name."""
        return None

    def to_json(self) -> dict[str, object]:
        """Return the image's row of the machine report."""
        return {
            "path": self.path,
            "size": self.size,
            "machine": self.machine,
            "is_library": self.is_library,
            "managed": self.managed,
            "floor": release_text(self.floor),
            "imports": list(self.imports),
            "delayed": list(self.delayed),
        }


@dataclass(frozen=True, slots=True)
class _Section:
    address: int
    offset: int
    stored: int


def read_pe(path: str, size: int, stream: IO[bytes], budget: Budget | None = None) -> PeImage:
    """Return what ``stream`` holds.

    Args:
        budget: what is left for the whole wheel; None for a file by itself.

    Raises:
        UnreadableBinary: it is damaged.
        OverLimit: it takes more work than the budget has.
    """
    (start,) = struct.unpack("<I", _read(stream, 60, 4))
    signature, machine, count, optional, flags = struct.unpack("<4sHH12xHH", _read(stream, start, 24))
    if signature != b"PE\0\0":
        raise UnreadableBinary("it has no PE header")
    if count > _MOST_SECTIONS:
        raise UnreadableBinary(f"has {count} sections")
    header = _read(stream, start + 24, optional)
    wide = _WIDE.get(struct.unpack_from("<H", header)[0]) if len(header) >= 2 else None
    if wide is None or len(header) < (112 if wide else 96):
        raise UnreadableBinary("its optional header is none that is known")
    table = _read(stream, start + 24 + optional, 40 * count)
    rows = (struct.unpack_from("<12xIII", table, 40 * index) for index in range(count))
    sections = tuple(_Section(address, offset, stored) for address, stored, offset in rows)
    directories = _directories(header, wide)
    image = _Image(stream, size, sections, budget or Budget.of(size))
    return PeImage(
        path=path,
        size=size,
        machine=_MACHINES.get(machine, f"machine {machine:#x}"),
        is_library=bool(flags & _DLL),
        managed=directories.get(_MANAGED, 0) != 0,
        floor=struct.unpack_from("<HH", header, 48),
        imports=image.names(directories.get(_IMPORTS, 0), 20, 12),
        delayed=image.names(directories.get(_DELAYED, 0), 32, 4),
    )


def _directories(header: bytes, wide: bool) -> dict[int, int]:
    """Return number → address of the tables that the optional header names."""
    at = 112 if wide else 96
    (count,) = struct.unpack_from("<I", header, at - 4)
    there = min(count, 16, (len(header) - at) // 8)
    return {index: struct.unpack_from("<I", header, at + 8 * index)[0] for index in range(there)}


class _Image:
    """Reads what stands at an address of the loaded image."""

    def __init__(self, stream: IO[bytes], size: int, sections: tuple[_Section, ...], budget: Budget) -> None:
        self._stream = stream
        self._size = size
        self._sections = sections
        self._budget = budget

    def names(self, address: int, entry: int, name_at: int) -> tuple[str, ...]:
        """Return the names in a table of imports, which ends with an empty entry; none where there is no table."""
        if not address:
            return ()
        found: list[str] = []
        table = self._at(address, entry * _MOST_IMPORTS)
        for at in range(0, len(table) - entry + 1, entry):
            (name,) = struct.unpack_from("<I", table, at + name_at)
            if not name:
                return tuple(found)
            found.append(text_at(self._at(name, LONGEST_NAME), 0, self._budget))
        raise UnreadableBinary("its table of imports does not end")

    def _at(self, address: int, most: int) -> bytes:
        """Return up to ``most`` bytes from an address to the end of its section."""
        for section in self._sections:
            at = address - section.address
            if 0 <= at < section.stored and section.offset + at < self._size:
                count = min(most, section.stored - at, self._size - section.offset - at)
                self._budget.take_data(count)
                return _read(self._stream, section.offset + at, count)
        raise UnreadableBinary("a table lies outside the sections")


def _read(stream: IO[bytes], start: int, size: int) -> bytes:
    stream.seek(start)
    data = stream.read(size)
    if len(data) != size:
        raise UnreadableBinary("it ends too early")
    return data
