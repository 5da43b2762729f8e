"""Device code: the fat binaries in a shared object, read without NVIDIA's tools and in bounded time.

nvcc and clang put them into the section ``.nv_fatbin`` (relocatable ones into ``__nv_relfatbin``), each on
eight bytes: a header (magic, version, header size, u64 size of the rest), then entries, each a header and its
padded payload. The layout of entries was derived from files made by CUDA 11.8 to 13.5 and compared with
``cuobjdump`` 13.5, whose names for the kinds are used; NVIDIA does not document it.

LZ4 payloads are unpacked as far as needed. Zstandard ones (CUDA 13's ``-compress-mode`` default and size) are
not: the standard library has no decoder before Python 3.14, and all facts but the toolkit are outside of them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import IO, Literal

from wheel_audit.limits import Budget

Kind = Literal["elf", "ptx", "lto", "other"]
"""Machine code for one architecture, assembly for the driver, LTO-IR for a linker, or another."""

Packing = Literal["", "lz4", "zstd"]

_RELOCATABLE = "__nv_relfatbin"
SECTIONS = frozenset({".nv_fatbin", _RELOCATABLE})
"""The sections that hold fat binaries (``fatbinary_section.h`` of CUDA 13.0)."""

IN_PE = {b".nv_fatb": ".nv_fatbin", b"__nv_rel": _RELOCATABLE}
"""Their names in PE files, which have eight bytes (seen in bitsandbytes 0.43.1 and nvidia-nvjpeg 11.9 to 13.3)."""

_REPORTED = ("kind", "arch", "ptx_isa", "compressed", "toolkit", "relocatable")
_MAGIC = b"\x50\xed\x55\xba"
_FATBIN = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<H2xIQI4xHHI8xQ8xQ")
_KINDS: dict[int, Kind] = {1: "ptx", 2: "elf", 4: "elf", 8: "lto"}
_PREFIXES: dict[Kind, str] = {"elf": "sm_", "ptx": "compute_", "lto": "lto_"}
_FAMILY, _ACCELERATED = 0x200000, 0x100000
_PACKINGS: dict[int, Packing] = {0x2000: "lz4", 0x8000: "zstd"}

_CUBIN_SIZE = 64
"""Bytes of the ELF header of a cubin: enough for everything but the note."""

_CUBIN = struct.Struct("<4s3x2B11xI24xI")
_EM_CUDA = 190
_OLD, _NEW = (51, 7), (65, 8)
_CUBIN_ACCELERATED = {_OLD: 0x800, _NEW: 0x8}
_NOTE = re.compile(rb"\x0c\0\0\0(.{4})\xd0\x07\0\0NVIDIA Corp\0", re.DOTALL)
_NOTE_LIMIT = 4096
_VERSION = re.compile(rb"\brelease \d+\.\d+, V(\d{1,3}\.\d{1,3}\.\d{1,5})\0")

_MOST_ITEMS = 100_000
"""Limit of fat binaries and images: libcublasLt has about 8000."""
_WINDOW = 4096
_ALIGNMENT = 8
"""The next fat binary begins within this distance, unless there is other padding."""
_PLAIN_LIMIT = 1 << 20
"""Bytes of one unpacked cubin that are searched for its note, which is before the code."""
_LZ4_HEADER = 512
"""Packed bytes that always contain the ELF header."""
_LZ4_LIMIT = 256 << 10
_LZ4_BUDGET = 8 << 20
"""Limit of unpacked bytes for one object: about half a second of work."""


class _Damaged(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class DeviceImage:
    """One program for GPUs, at an offset of the file.

    ``arch`` is as in nvcc's ``code=``: ``sm_90a``, ``compute_80``, ``lto_90``. ``ptx_isa`` is the version of PTX,
    ``8.5``. ``size`` is its bytes in the file, without header. ``toolkit`` is the release of the tool that made it,
    empty if not stated or not readable. A relocatable one is an input that a device link left next to its result.
    """

    kind: Kind
    arch: str
    ptx_isa: str
    size: int
    unpacked_size: int
    compressed: Packing
    toolkit: str
    relocatable: bool
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """All device code of one shared object, in the file's order; ``defect`` says why reading stopped early.

    ``section_size`` is the bytes of the sections that hold it, with headers and padding; 0 without section headers.
    """

    images: tuple[DeviceImage, ...] = ()
    defect: str = ""
    section_size: int = field(default=0, compare=False)

    @property
    def archs(self) -> tuple[str, ...]:
        """The architectures with code of any kind."""
        return sorted_archs(image.arch for image in self.images)

    def to_json(self) -> dict[str, object]:
        """Return the rows of the machine report: equal images are one row with their count."""
        groups: dict[tuple[object, ...], list[DeviceImage]] = {}
        for image in self.images:
            groups.setdefault(tuple(getattr(image, name) for name in _REPORTED), []).append(image)
        return {
            "images": [
                {
                    **dict(zip(_REPORTED, values, strict=True)),
                    "count": len(same),
                    "size": sum(image.size for image in same),
                    "unpacked_size": sum(image.unpacked_size for image in same),
                }
                for values, same in groups.items()
            ],
            "defect": self.defect,
            "section_size": self.section_size,
        }


def sorted_archs(archs: Iterable[str]) -> tuple[str, ...]:
    """Return each of ``archs`` once, by kind and number: sm_80, sm_90, sm_90a, sm_100."""
    return tuple(sorted(set(archs), key=_arch_key))


def _arch_key(arch: str) -> tuple[bool, str, int, str]:
    match = re.fullmatch(r"(\w+)_(\d+)([af]?)", arch)
    # Machine code first: it is the most important.
    return (match[1] != "sm", match[1], int(match[2]), match[3]) if match else (True, arch, 0, "")


def read_sections(stream: IO[bytes], sections: Iterable[tuple[str, int, int]], budget: Budget) -> DeviceCode:
    """Read the fat binaries in those ``sections`` (name, offset, size) of a shared object that have only device code.

    Raises OverLimit.
    """
    reader = _Reader(stream, budget)
    device = [(name, start, size) for name, start, size in sections if name in SECTIONS]
    code = reader.read(
        reader.read_section, ((start, start + size, name == _RELOCATABLE) for name, start, size in device)
    )
    return replace(code, section_size=sum(size for _, _, size in device))


def search_segments(stream: IO[bytes], segments: Iterable[tuple[int, int]], budget: Budget) -> DeviceCode:
    """Search segments (offset, size) of a shared object without section headers for fat binaries.

    Relocatable code is not distinguished here. Raises OverLimit.
    """
    reader = _Reader(stream, budget)
    return reader.read(reader.search, ((start, start + size) for start, size in segments))


@dataclass(slots=True)
class _Reader:
    stream: IO[bytes]
    budget: Budget
    images: list[DeviceImage] = field(default_factory=list)
    items: int = 0
    unpacked: int = 0
    relocatable: bool = False

    def read(self, step: Callable[..., None], parts: Iterable[tuple[int, ...]]) -> DeviceCode:
        """Return all images up to the first damage."""
        defect = ""
        try:
            for part in parts:
                step(*part)
        except _Damaged as reason:
            defect = str(reason)
        return DeviceCode(tuple(self.images), defect)

    def read_section(self, at: int, end: int, relocatable: bool) -> None:
        self.relocatable = relocatable
        while (at := self._after_zeros(at, end)) < end:
            size = self._fatbin_size(at, end)
            if size is None:
                raise _Damaged(f"no fat binary at offset {at:#x} of the file")
            self._read_entries(at + _FATBIN.size, at + size)
            at += size

    def search(self, at: int, end: int) -> None:
        while at < end:
            window = self._bytes(at, min(_WINDOW + len(_MAGIC), end - at))
            if not window:
                return  # the segment claims more than the file has
            offset = window.find(_MAGIC)
            if offset < 0:
                at += _WINDOW
                continue
            at += offset
            size = self._fatbin_size(at, end)
            if size is not None:
                self._read_entries(at + _FATBIN.size, at + size)
            at += size or len(_MAGIC)

    def _after_zeros(self, at: int, end: int) -> int:
        size = _ALIGNMENT
        while at < end:
            window = self._bytes(at, min(size, end - at))
            if not window:
                raise _Damaged("the file ends inside its device code")
            rest = window.lstrip(b"\0")
            at += len(window) - len(rest)
            if rest:
                return at
            size = _WINDOW
        return end

    def _fatbin_size(self, at: int, end: int) -> int | None:
        """Return the size of the fat binary at ``at``, with its header, or None if there is none."""
        self._count()
        if end - at < _FATBIN.size:
            return None
        head = self._bytes(at, _FATBIN.size)
        if len(head) < _FATBIN.size:
            return None
        magic, version, header, size = _FATBIN.unpack(head)
        fits = magic == _MAGIC and version == 1 and header == _FATBIN.size and size <= end - at - header
        return header + size if fits else None

    def _read_entries(self, at: int, end: int) -> None:
        while at < end:
            self._count()
            head = self._bytes(at, _ENTRY.size)
            if end - at < _ENTRY.size or len(head) < _ENTRY.size:
                raise _Damaged(f"the entry at offset {at:#x} of the file is cut off")
            kind, header, size, packed_size, minor, major, arch, flags, unpacked = _ENTRY.unpack(head)
            packing = _packing(flags)
            if (
                not _ENTRY.size <= header <= end - at
                or size > end - at - header
                or packed_size > size
                or not 10 <= arch < 1000
            ):
                raise _Damaged(f"the entry at offset {at:#x} of the file contradicts itself")
            stored = packed_size if packing else size
            facts = self._facts(at + header, stored, packing) if _KINDS.get(kind) == "elf" else CubinFacts()
            self.images.append(
                DeviceImage(
                    kind=_KINDS.get(kind, "other"),
                    arch=_arch_name(kind, arch, flags, accelerated=facts.accelerated),
                    ptx_isa=f"{major}.{minor}" if _KINDS.get(kind) == "ptx" else "",
                    size=size,
                    unpacked_size=unpacked if packing else size,
                    compressed=packing,
                    toolkit=facts.toolkit,
                    relocatable=self.relocatable,
                    offset=at + header,
                )
            )
            at += header + size

    def _facts(self, at: int, size: int, packing: Packing) -> CubinFacts:
        """Return the facts of the cubin at ``at``; empty ones if it cannot be read."""
        if packing == "lz4":
            return self._unpacked_facts(at, size)
        return (not packing and read_cubin(self._bytes(at, min(size, _PLAIN_LIMIT)))) or CubinFacts()

    def _unpacked_facts(self, at: int, size: int) -> CubinFacts:
        facts = read_cubin(self._unpack(at, min(size, _LZ4_HEADER), _CUBIN_SIZE)) or CubinFacts()
        if facts.has_note and self.unpacked < _LZ4_BUDGET:
            self.unpacked += _LZ4_LIMIT
            return read_cubin(self._unpack(at, min(size, _LZ4_LIMIT), _LZ4_LIMIT)) or facts
        return facts

    def _unpack(self, at: int, size: int, limit: int) -> bytes:
        # Every few bytes are a separate step.
        self.budget.take_rows(size // 8)
        try:
            return unpack_lz4(self._bytes(at, size), limit)
        except ValueError:
            return b""

    def _bytes(self, at: int, size: int) -> bytes:
        try:
            self.stream.seek(at)
        except OverflowError:  # further than any file reaches
            return b""
        data = self.stream.read(size)
        self.budget.take_data(len(data))
        return data

    def _count(self) -> None:
        self.items += 1
        self.budget.take_rows(1)
        if self.items > _MOST_ITEMS:
            raise _Damaged(f"it claims more than {_MOST_ITEMS:,} fat binaries and images")


def _packing(flags: int) -> Packing:
    return next((name for flag, name in _PACKINGS.items() if flags & flag), "")


def _arch_name(kind: int, number: int, flags: int, *, accelerated: bool) -> str:
    prefix = _PREFIXES.get(_KINDS.get(kind, "other"), f"kind{kind}_")
    if flags & _ACCELERATED or accelerated:
        return f"{prefix}{number}a"
    return f"{prefix}{number}{'f' if flags & _FAMILY else ''}"


def unpack_lz4(packed: bytes, limit: int) -> bytes:
    """Return at most the first ``limit`` bytes of an LZ4 block; raise ValueError if it is damaged before that point.

    Format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md. ``fatbinary`` of CUDA 11.8 to 13.5 writes plain
    blocks (compared byte by byte with what ``cuobjdump -xelf`` extracts).
    """
    out = bytearray()
    at = 0
    while at < len(packed) and len(out) < limit:
        token = packed[at]
        literals, at = _lz4_length(packed, at + 1, token >> 4)
        if at + literals > len(packed):
            raise ValueError("an LZ4 block ends inside its literals")
        out += packed[at : at + literals]
        at += literals
        if at == len(packed):
            break  # the last sequence has no match
        distance = int.from_bytes(packed[at : at + 2], "little")
        length, at = _lz4_length(packed, at + 2, token & 15)
        if not 0 < distance <= len(out):
            raise ValueError("an LZ4 block refers to bytes before its start")
        # A hostile length must not make gigabytes.
        count = min(length + 4, max(0, limit - len(out)))
        start = len(out) - distance
        source = bytes(out[start : start + count])
        out += (source * (count // distance + 1))[:count]
    return bytes(out[:limit])


def _lz4_length(packed: bytes, at: int, start: int) -> tuple[int, int]:
    """Return a length that starts as four bits of the token, and the position after it."""
    length, part = start, 255 if start == 15 else 0
    while part == 255:
        if at >= len(packed):
            raise ValueError("an LZ4 block ends inside a length")
        part = packed[at]
        length, at = length + part, at + 1
    return length, at


@dataclass(frozen=True, slots=True)
class CubinFacts:
    """What a cubin states: the release of its assembler (``12.4``, ``13.0.88``, or empty), and whether it is for one
    exact architecture (``a``). With ``has_note``, the toolkit is in a note after the header.
    """

    toolkit: str = ""
    accelerated: bool = False
    has_note: bool = False


def read_cubin(head: bytes) -> CubinFacts | None:
    """Read the beginning of a cubin, the machine code of one architecture; None if it is not a cubin of a known kind.

    The facts about the format come from the output of ptxas 11.8.89, 12.4.131, 12.8.93, 12.9.86, 13.0.88 and 13.5.37 for
    architectures 52 to 120f:

    - ELF ABI 7 (all of CUDA 11 and 12 up to sm_90): ``e_version`` is the toolkit's release (0x7c is 12.4), bit
      0x800 of ``e_flags`` is the ``a`` of ``sm_90a``.
    - ELF ABI 8 (12.8 and 12.9 from sm_100 on, everything since 13.0): the note ``.note.nv.tkinfo`` (owner
      "NVIDIA Corp", type 2000) has the tool's version in text. The ``a`` is bit 0x8 of ``e_flags`` in 12.8 and
      12.9 only; later only the fat binary's entry has it.
    """
    if len(head) < _CUBIN_SIZE or int.from_bytes(head[18:20], "little") != _EM_CUDA:
        return None
    magic, system, abi, version, flags = _CUBIN.unpack_from(head)
    layout = (system, abi)
    if magic != b"\x7fELF" or layout not in _CUBIN_ACCELERATED:
        return None
    accelerated = bool(flags & _CUBIN_ACCELERATED[layout])
    if layout == _OLD:
        toolkit = f"{version // 10}.{version % 10}" if 100 <= version < 200 else ""
        return CubinFacts(toolkit, accelerated)
    return CubinFacts(_tool_note(head), accelerated, has_note=True)


def _tool_note(head: bytes) -> str:
    note = _NOTE.search(head)
    if note is None:
        return ""
    length = min(int.from_bytes(note[1], "little"), _NOTE_LIMIT)
    version = _VERSION.search(head[note.end() : note.end() + length])
    return version[1].decode() if version else ""
