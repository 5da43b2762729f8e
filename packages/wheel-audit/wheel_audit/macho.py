"""Mach-O files as macOS' loader sees them: machines, the oldest system, names, needs and search paths.

Layouts from Apple's ``mach-o/loader.h`` and ``mach-o/fat.h``. Only headers and load commands are read, within limits;
slices may overlap, so one budget limits all of them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO

from wheel_audit.binary import Binary, BoundedFile, UnreadableBinary, text_at, to_row
from wheel_audit.limits import Budget
from wheel_audit.tags import Release, release_text

_MOST_SLICES = 40
_MOST_COMMANDS = 10_000
_LARGEST_COMMANDS = 4 << 20
"""Bytes of all load commands: those of Xcode's largest libraries have some ten thousand."""

_THIN = {b"\xcf\xfa\xed\xfe": 32, b"\xce\xfa\xed\xfe": 28}
"""Bytes of the header, by its first ones: 64 and 32 bits, little endian."""
_FAT = {b"\xca\xfe\xba\xbe": ">8xII4x", b"\xca\xfe\xba\xbf": ">8xQQ8x"}
"""Layout of the entries of a universal file."""
MAGICS = (*_THIN, *_FAT)
"""The first bytes of Mach-O files; Java classes have one of them, too."""

_MACHINES = {0x01000007: "x86_64", 0x0100000C: "arm64", 7: "i386", 12: "arm", 0x0200000C: "arm64_32", 18: "ppc"}
_KINDS = {2: "program", 6: "library", 8: "module"}
"""File types that are loaded; object files and debug information are not."""

_LOADS = {0xC: "load", 0x80000018: "weak", 0x8000001F: "reexport", 0x20: "lazy", 0x80000023: "upward"}
_ID, _RPATH, _SIGNATURE, _BUILD = 0xD, 0x8000001C, 0x1D, 0x32
_VERSION_MIN = {0x24: "macos", 0x25: "ios", 0x2F: "tvos", 0x30: "watchos"}
_PLATFORMS = {1: "macos", 2: "ios", 3: "tvos", 4: "watchos", 6: "mac catalyst", 7: "ios simulator"}


@dataclass(slots=True)
class Slice:
    """A file's content for one machine, as in platform tags: ``x86_64``, ``arm64``.

    ``kind`` is ``module``, ``library`` or ``program``. ``floor`` is the oldest release of ``system`` (``macos``); both
    are empty if not stated. ``install_name`` is its own name for the loader; ``needed`` has the names of others in
    order, of which ``weak`` ones may be missing. ``signed`` says whether it has a code signature.
    """

    machine: str
    kind: str
    system: str = ""
    floor: Release | None = None
    install_name: str | None = None
    needed: list[str] = field(default_factory=list)
    weak: set[str] = field(default_factory=set)
    rpaths: list[str] = field(default_factory=list)
    signed: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the slice's part of the machine report."""
        return to_row(self, "weak", floor=release_text(self.floor))


@dataclass(frozen=True, slots=True)
class MachObject(Binary):
    """One Mach-O module, library or program; a universal one has several slices."""

    slices: tuple[Slice, ...]

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines it has code for, in order."""
        return tuple(part.machine for part in self.slices)

    def to_json(self) -> dict[str, object]:
        """Return the object's row of the machine report."""
        return to_row(self, "soname", slices=[part.to_json() for part in self.slices])


def read_macho(path: str, stream: IO[bytes], budget: Budget) -> MachObject | None:
    """Read a Mach-O file; None for ``.o`` and debug information, which are never loaded. Raises as `BoundedFile`."""
    file = BoundedFile(stream, budget)
    parts = [_slice(file, start, length) for start, length in _ranges(file)]
    loaded = tuple(part for part in parts if part is not None)
    if not loaded:
        return None
    name = loaded[0].install_name
    return MachObject(path, file.size, PurePosixPath(name).name if name else None, loaded)


def _ranges(file: BoundedFile) -> list[tuple[int, int]]:
    """Return offset and size of each slice."""
    layout = _FAT.get(file.read(0, 4))
    if layout is None:
        return [(0, file.size)]
    (count,) = file.unpack(">I", 4)
    if not 0 < count <= _MOST_SLICES:
        raise UnreadableBinary(f"has {count} machines")
    ranges = [(offset, length) for offset, length in file.rows(layout, 8, count)]
    end_of_table = 8 + count * struct.calcsize(layout)
    if any(offset < end_of_table or offset + length > file.size for offset, length in ranges):
        raise UnreadableBinary("a machine's code is outside the file")
    return ranges


def _slice(file: BoundedFile, start: int, length: int) -> Slice | None:
    header = _THIN.get(file.read(start, 4))
    if header is None:
        raise UnreadableBinary("a machine's code has no known header")
    machine, kind, count, size = file.unpack("<I4xIII", start + 4)
    if count > _MOST_COMMANDS or size > min(_LARGEST_COMMANDS, length - header):
        raise UnreadableBinary("its load commands are outside the file, or are too many")
    if kind not in _KINDS:
        return None
    file.budget.take_rows(count)
    part = Slice(_MACHINES.get(machine, f"cpu {machine:#x}"), _KINDS[kind])
    commands = file.read(start + header, size)
    at = 0
    for _ in range(count):
        command, size = _numbers(commands, at, 2)
        if size < 8 or at + size > len(commands):
            raise UnreadableBinary("a load command ends outside the others")
        _read_command(part, command, commands[at : at + size], file.budget)
        at += size
    return part


def _read_command(part: Slice, command: int, data: bytes, budget: Budget) -> None:
    if command in _LOADS:
        name = _text(data, budget)
        part.needed.append(name)
        if _LOADS[command] == "weak":
            part.weak.add(name)
    elif command == _ID:
        part.install_name = _text(data, budget)
    elif command == _RPATH:
        part.rpaths.append(_text(data, budget))
    elif command == _SIGNATURE:
        part.signed = True
    # A library for macOS may support Mac Catalyst, too: the first entry for macOS counts.
    elif command == _BUILD and part.system != "macos":
        platform, floor = _numbers(data, 8, 2)
        part.system, part.floor = _PLATFORMS.get(platform, f"platform {platform}"), _release(floor)
    elif command in _VERSION_MIN and part.system != "macos":
        part.system, part.floor = _VERSION_MIN[command], _release(*_numbers(data, 8, 1))


def _release(number: int) -> Release:
    return number >> 16, number >> 8 & 0xFF


def _text(data: bytes, budget: Budget) -> str:
    (offset,) = _numbers(data, 8, 1)
    return text_at(data, offset, budget, len(data))


def _numbers(data: bytes, at: int, count: int) -> tuple[int, ...]:
    if at + 4 * count > len(data):
        raise UnreadableBinary("a load command is too short")
    return struct.unpack_from(f"<{count}I", data, at)
