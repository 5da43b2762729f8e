"""Mach-O files as macOS' loader sees them: machines, the oldest system, names, needs and search paths.

Layouts from Apple's ``mach-o/loader.h`` and ``mach-o/fat.h``. Only headers and load commands are read, each within
bounds; slices may overlap, so a budget bounds them all together.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

from bakery.audit.binary import UnreadableBinary, text_at
from bakery.audit.limits import Budget
from bakery.audit.tags import Release, release_text

_MOST_SLICES = 40
_MOST_COMMANDS = 10_000
_LARGEST_COMMANDS = 4 << 20
"""Bytes of all load commands: those of Xcode's largest libraries take some ten thousand."""

_THIN = {b"\xcf\xfa\xed\xfe": (64, "<"), b"\xce\xfa\xed\xfe": (32, "<")}
_FAT = {b"\xca\xfe\xba\xbe": 20, b"\xca\xfe\xba\xbf": 32}
MAGICS = (*_THIN, *_FAT)
"""The first bytes of what is read here; Java's classes share one of them."""

_MACHINES = {0x01000007: "x86_64", 0x0100000C: "arm64", 7: "i386", 12: "arm", 0x0200000C: "arm64_32", 18: "ppc"}
_KINDS = {2: "program", 6: "library", 8: "module"}
"""File types that are loaded; object files and debug information are not."""

_LOADS = {0xC: "load", 0x80000018: "weak", 0x8000001F: "reexport", 0x20: "lazy", 0x80000023: "upward"}
_ID, _RPATH, _SIGNATURE, _BUILD = 0xD, 0x8000001C, 0x1D, 0x32
_VERSION_MIN = {0x24: "macos", 0x25: "ios", 0x2F: "tvos", 0x30: "watchos"}
_PLATFORMS = {1: "macos", 2: "ios", 3: "tvos", 4: "watchos", 6: "mac catalyst", 7: "ios simulator"}


@dataclass(frozen=True, slots=True)
class Slice:
    """What a file holds for one machine.

    Attributes:
        machine: as in platform tags: ``x86_64``, ``arm64``.
        kind: ``module``, ``library`` or ``program``.
        system: what it is for: ``macos``; empty where it does not say.
        floor: the oldest release of that system; None where it does not say.
        install_name: its own name to the loader.
        needed: the install names it asks for, in order.
        weak: those among them that may be missing.
        rpaths: where ``@rpath`` is looked for.
        signed: whether it has a code signature.
    """

    machine: str
    kind: str
    system: str
    floor: Release | None
    install_name: str | None
    needed: tuple[str, ...]
    weak: frozenset[str]
    rpaths: tuple[str, ...]
    signed: bool

    def to_json(self) -> dict[str, object]:
        """Return the slice's part of the machine report."""
        return {
            "machine": self.machine,
            "kind": self.kind,
            "system": self.system,
            "floor": release_text(self.floor),
            "install_name": self.install_name,
            "needed": list(self.needed),
            "rpaths": list(self.rpaths),
            "signed": self.signed,
        }


@dataclass(frozen=True, slots=True)
class MachObject:
    """One Mach-O module, library or program; a universal one has several slices."""

    path: str
    size: int
    slices: tuple[Slice, ...]

    @property
    def file_name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name

    @property
    def soname(self) -> str | None:
        """The last part of its install name."""
        name = self.slices[0].install_name
        return PurePosixPath(name).name if name else None

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines it has code for, in order."""
        return tuple(part.machine for part in self.slices)

    def to_json(self) -> dict[str, object]:
        """Return the object's row of the machine report."""
        return {"path": self.path, "size": self.size, "slices": [part.to_json() for part in self.slices]}


def read_macho(path: str, size: int, stream: IO[bytes], budget: Budget | None = None) -> MachObject | None:
    """Return what ``stream`` holds, or None for a file that is never loaded (``.o``, debug information).

    Args:
        budget: what is left for the whole wheel; None for a file by itself.

    Raises:
        UnreadableBinary: it is damaged.
        OverLimit: it takes more work than the budget has.
    """
    budget = budget or Budget.of(size)
    parts = [_slice(stream, start, length, budget) for start, length in _places(stream, size)]
    loaded = tuple(part for part in parts if part is not None)
    return MachObject(path, size, loaded) if loaded else None


def _places(stream: IO[bytes], size: int) -> list[tuple[int, int]]:
    """Return where the slices lie: offset and bytes."""
    entry = _FAT.get(_read(stream, 0, 4))
    if entry is None:
        return [(0, size)]
    (count,) = struct.unpack(">I", _read(stream, 4, 4))
    if not 0 < count <= _MOST_SLICES:
        raise UnreadableBinary(f"has {count} machines")
    table = _read(stream, 8, count * entry)
    shape = ">8xII4x" if entry == 20 else ">8xQQ8x"
    places = [struct.unpack_from(shape, table, index * entry) for index in range(count)]
    if any(offset < 8 + len(table) or offset + length > size for offset, length in places):
        raise UnreadableBinary("a machine's code lies outside the file")
    return [(offset, length) for offset, length in places]


def _slice(stream: IO[bytes], start: int, length: int, budget: Budget) -> Slice | None:
    bits, order = _THIN.get(_read(stream, start, 4), (0, ""))
    if not bits:
        raise UnreadableBinary("a machine's code has no known header")
    machine, kind, count, taken = struct.unpack(f"{order}I4xIII", _read(stream, start + 4, 20))
    header = 32 if bits == 64 else 28
    if count > _MOST_COMMANDS or taken > min(_LARGEST_COMMANDS, length - header):
        raise UnreadableBinary("its load commands lie outside the file, or are too many")
    if kind not in _KINDS:
        return None
    budget.take_rows(count)
    budget.take_data(taken)
    reader = _Commands(order, budget)
    reader.read(_read(stream, start + header, taken), count)
    return Slice(
        machine=_MACHINES.get(machine, f"cpu {machine:#x}"),
        kind=_KINDS[kind],
        system=reader.system,
        floor=reader.floor,
        install_name=reader.install_name,
        needed=tuple(reader.needed),
        weak=frozenset(reader.weak),
        rpaths=tuple(reader.rpaths),
        signed=reader.signed,
    )


class _Commands:
    """Collects what the load commands of one slice say."""

    def __init__(self, order: str, budget: Budget) -> None:
        self._order = order
        self._budget = budget
        self.system = ""
        self.floor: Release | None = None
        self.install_name: str | None = None
        self.needed: list[str] = []
        self.weak: set[str] = set()
        self.rpaths: list[str] = []
        self.signed = False

    def read(self, data: bytes, count: int) -> None:
        """Read ``count`` commands.

        Raises:
            UnreadableBinary: one is too short, or ends outside.
        """
        at = 0
        for _ in range(count):
            command, size = self._numbers(data, at, 2)
            if size < 8 or at + size > len(data):
                raise UnreadableBinary("a load command ends outside the others")
            self._one(command, data[at : at + size])
            at += size

    def _one(self, command: int, data: bytes) -> None:
        if command in _LOADS:
            name = self._text(data)
            self.needed.append(name)
            if _LOADS[command] == "weak":
                self.weak.add(name)
        elif command == _ID:
            self.install_name = self._text(data)
        elif command == _RPATH:
            self.rpaths.append(self._text(data))
        elif command == _SIGNATURE:
            self.signed = True
        elif command == _BUILD:
            platform, floor = self._numbers(data, 8, 2)
            self._runs_on(_PLATFORMS.get(platform, f"platform {platform}"), floor)
        elif command in _VERSION_MIN:
            (floor,) = self._numbers(data, 8, 1)
            self._runs_on(_VERSION_MIN[command], floor)

    def _runs_on(self, system: str, floor: int) -> None:
        # A library for macOS may serve Mac Catalyst, too: the first that is macOS counts.
        if self.system != "macos":
            self.system, self.floor = system, (floor >> 16, floor >> 8 & 0xFF)

    def _text(self, data: bytes) -> str:
        (offset,) = self._numbers(data, 8, 1)
        return text_at(data, offset, self._budget, len(data))

    def _numbers(self, data: bytes, at: int, count: int) -> tuple[int, ...]:
        if at + 4 * count > len(data):
            raise UnreadableBinary("a load command is too short")
        return struct.unpack_from(f"{self._order}{count}I", data, at)


def _read(stream: IO[bytes], start: int, size: int) -> bytes:
    stream.seek(start)
    data = stream.read(size)
    if len(data) != size:
        raise UnreadableBinary("it ends too early")
    return data
