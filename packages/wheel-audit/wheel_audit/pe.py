"""PE files as Windows' loader sees them: machine, the oldest system, and the libraries they import.

Layouts from Microsoft's "PE Format". Only headers and import tables are read, within limits.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import IO

from wheel_audit.binary import Binary, BoundedFile, UnreadableBinary, text_at, to_row
from wheel_audit.fatbin import IN_PE, DeviceCode, read_sections
from wheel_audit.limits import LONGEST_NAME, Budget
from wheel_audit.tags import Release, release_text

_MOST_SECTIONS = 200
"""Limit of sections, since each name searches them. Windows allowed at most 96 for a long time."""
_MOST_IMPORTS = 5000

_MACHINES = {0x8664: "amd64", 0xAA64: "arm64", 0x14C: "x86", 0x1C4: "arm", 0xA641: "arm64ec"}
_TABLES_AT = {b"\x0b\x01": 96, b"\x0b\x02": 112}
"""Where the optional header has its tables, by its first bytes: 32 and 64 bits."""
_IMPORTS, _DELAYED, _MANAGED = 1, 13, 14
_DLL = 0x2000


@dataclass(frozen=True, slots=True)
class PeImage(Binary):
    """One PE library, extension module or program. It has no ``soname``: a DLL is found by its file name.

    ``machine`` is as in platform tags: ``amd64``, ``arm64``, ``x86``; a number for others. A DLL, as extension modules
    are, is a library. ``managed`` is .NET code, which runs on any machine. ``floor`` is the oldest Windows that the
    header allows, as (6, 0). ``imports`` are needed when it is loaded, ``delayed`` DLLs on their first call, as
    written.
    """

    machine: str
    is_library: bool
    managed: bool
    floor: Release
    imports: tuple[str, ...]
    delayed: tuple[str, ...]
    device_code: DeviceCode = field(default_factory=DeviceCode)

    @property
    def needed(self) -> tuple[str, ...]:
        """The DLLs that are loaded with it or on its first call of them."""
        return (*self.imports, *self.delayed)

    @property
    def x86_level(self) -> int:
        """The x86-64 level that it says it needs: PE files say none."""
        return 0

    def to_json(self) -> dict[str, object]:
        """Return the image's row of the machine report."""
        return to_row(self, "soname", floor=release_text(self.floor), device_code=self.device_code.to_json())


def read_pe(path: str, stream: IO[bytes], budget: Budget) -> PeImage:
    """Read a PE file. Raises as `BoundedFile` does."""
    image = _Image(stream, budget)
    (start,) = image.unpack("<I", 60)
    signature, machine, section_count, optional, flags = image.unpack("<4sHH12xHH", start)
    if signature != b"PE\0\0":
        raise UnreadableBinary("it has no PE header")
    if section_count > _MOST_SECTIONS:
        raise UnreadableBinary(f"has {section_count} sections")
    header = image.read(start + 24, optional)
    at = _TABLES_AT.get(header[:2], optional + 1)
    if optional < at:
        raise UnreadableBinary("its optional header is not of a known type")
    (table_count,) = struct.unpack_from("<I", header, at - 4)
    table_count = min(table_count, 16, (optional - at) // 8)
    tables = dict(enumerate(struct.unpack_from(f"<{2 * table_count}I", header, at)[::2]))
    rows = list(image.rows("<8sIIII16x", start + 24 + optional, section_count))
    image.sections = tuple((address, stored, offset) for _, _, address, stored, offset in rows)
    # A section is filled up with zeros to a round size.
    device = [(IN_PE[name], offset, min(size, stored)) for name, size, _, stored, offset in rows if name in IN_PE]
    return PeImage(
        path=path,
        size=image.size,
        soname=None,
        machine=_MACHINES.get(machine, f"machine {machine:#x}"),
        is_library=bool(flags & _DLL),
        managed=tables.get(_MANAGED, 0) != 0,
        floor=struct.unpack_from("<HH", header, 48),
        imports=image.names(tables.get(_IMPORTS, 0), 20, 12),
        delayed=image.names(tables.get(_DELAYED, 0), 32, 4),
        device_code=read_sections(stream, device, budget),
    )


class _Image(BoundedFile):
    """Reads by addresses of the loaded image."""

    sections: tuple[tuple[int, int, int], ...] = ()
    """Address in memory, size in the file, offset in the file."""

    def names(self, address: int, entry: int, name_at: int) -> tuple[str, ...]:
        """Return the names in an import table, which ends with an empty entry; none without a table."""
        if not address:
            return ()
        names: list[str] = []
        table = self._at(address, entry * _MOST_IMPORTS)
        for at in range(0, len(table) - entry + 1, entry):
            (name,) = struct.unpack_from("<I", table, at + name_at)
            if not name:
                return tuple(names)
            names.append(text_at(self._at(name, LONGEST_NAME), 0, self.budget))
        raise UnreadableBinary("its table of imports does not end")

    def _at(self, address: int, most: int) -> bytes:
        """Return up to ``most`` bytes from an address to the end of its section."""
        for start, stored, offset in self.sections:
            at = address - start
            if 0 <= at < stored and offset + at < self.size:
                return self.read(offset + at, min(most, stored - at, self.size - offset - at))
        raise UnreadableBinary("a table is outside the sections")
