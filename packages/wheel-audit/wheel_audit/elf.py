"""ELF objects as the dynamic loader sees them: machine, names, needs, symbol versions and device code.

Layouts from the System V ABI and the Linux Standard Base (symbol versions). Tables may overlap, so a small file can
have large ones: one budget limits all of them.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import IO, NamedTuple

from wheel_audit.binary import NEED_ROWS, Binary, BoundedFile, UnreadableBinary, to_row
from wheel_audit.fatbin import DeviceCode, read_sections, search_segments
from wheel_audit.limits import LONGEST_NAME, Budget
from wheel_audit.symbols import LIMIT, Symbols, VersionNeed, newest_version, read_symbols
from wheel_audit.tags import Release, release_text

_MOST_ITEMS = 20_000
"""Limit of sections, segments and dynamic tags: libtorch has a few hundred."""

_LONGEST_PATHS = 1 << 16
"""Limit of a search path, in bytes: those of TensorFlow have ten thousand."""

_ARCHES = {
    (3, True): "i686",
    (62, True): "x86_64",
    (183, True): "aarch64",
    (40, True): "armv7l",
    (21, True): "ppc64le",
    (21, False): "ppc64",
    (22, False): "s390x",
    (243, True): "riscv64",
    (258, True): "loongarch64",
}
_NAMES = {2: "EM_SPARC", 4: "EM_68K", 8: "EM_MIPS", 20: "EM_PPC", 42: "EM_SH", 43: "EM_SPARCV9", 50: "EM_IA_64"}
_NAMES |= {21: "EM_PPC64", 22: "EM_S390", 40: "EM_ARM", 62: "EM_X86_64", 183: "EM_AARCH64", 190: "EM_CUDA"}
_NAMES |= {224: "EM_AMDGPU", 243: "EM_RISCV", 247: "EM_BPF", 252: "EM_CSKY"}
"""Machines without a platform tag, by their names in ``elf.h``."""

_DEVICES = frozenset({190, 224, 247})
"""CUDA, AMDGPU, BPF."""

_ET_EXEC, _ET_DYN = 2, 3
_PT_LOAD, _PT_DYNAMIC = 1, 2
_SHT_NOBITS, _SHT_VERDEF, _SHT_VERNEED = 8, 0x6FFFFFFD, 0x6FFFFFFE
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 10, 14, 15, 29
_DT_VERNEED = 0x6FFFFFFE
_MORE = 0xFFFF
"""The count is in the first section header instead."""

_DEBUG = re.compile(r"\.z?debug_|\.gdb_index$")
_SHARED = re.compile(r"\.so(\.|$)")
_VER_FLG_WEAK = 2

_NEEDED_LEVEL = 0xC0008002
"""The x86-64 level that ``gcc -mneeded`` asks the linker to write down: ``GNU_PROPERTY_X86_ISA_1_NEEDED``.

Source: x86-64 psABI, "Program Property"."""

_NOTES, _PROPERTIES = ".note.gnu.property", 5
_LARGEST_NOTES = 1 << 16
"""Bytes of notes that are read; compilers write fewer than 100."""

_LEVELS = 4


class _Section(NamedTuple):
    name: str
    kind: int
    offset: int
    size: int
    link: int

    @property
    def stored(self) -> bool:
        """Whether it has bytes in the file."""
        return self.kind != _SHT_NOBITS


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    stored: int


@dataclass(frozen=True, slots=True)
class SharedObject(Binary):
    """One ELF shared object or program of class 32 or 64.

    ``machine`` is as in platform tags (``x86_64``, ``aarch64``), or ELF's name for it. ``needed`` has sonames in order.
    An object is ``stripped`` without ``.symtab``; ``debug_size`` is the bytes of its debug sections in the file.
    ``glibc`` and ``glibcxx`` are the newest versions that its symbols need, as (2, 28) and (3, 4, n). ``x86_level`` is the
    x86-64 level that it says it needs, 0 if it does not say.
    """

    elf_class: int
    machine: str
    needed: tuple[str, ...]
    rpath: str | None
    runpath: str | None
    stripped: bool
    debug_size: int
    glibc: Release | None
    glibcxx: Release | None
    symbols: Symbols
    device_code: DeviceCode
    x86_level: int = 0

    def to_json(self) -> dict[str, object]:
        """Return the object's row of the machine report."""
        return to_row(
            self,
            "symbols",
            "x86_level",
            glibc=release_text(self.glibc),
            glibcxx=release_text(self.glibcxx),
            cxx_abi=self.symbols.cxx_abi,
            device_code=self.device_code.to_json(),
        )


def read_elf(path: str, stream: IO[bytes], budget: Budget) -> SharedObject | None:
    """Read an ELF file; None for one that no CPU loads (``.o``, cubin). Raises as `BoundedFile` does."""
    elf = _Elf(stream, budget)
    if not _SHARED.search(path.rpartition("/")[2]) and (elf.kind not in (_ET_DYN, _ET_EXEC) or elf.machine in _DEVICES):
        return None
    dynamic = elf.dynamic()
    needs = list(elf.version_needs())
    # libgcc has a version GLIBC_2.0, also with musl (libgcc-glibc.ver of GCC): numpy's musllinux wheels need it.
    versions = [need.version for need in needs if not need.library.startswith("libgcc_s")]
    if dynamic.has_versions and not needs:
        raise UnreadableBinary("it needs symbol versions, but its section headers do not show them")
    return SharedObject(
        path=path,
        size=elf.size,
        elf_class=64 if elf.wide else 32,
        machine=_ARCHES.get((elf.machine, elf.little), _NAMES.get(elf.machine, str(elf.machine))),
        soname=dynamic.texts.get(_DT_SONAME),
        needed=tuple(dynamic.needed),
        rpath=dynamic.texts.get(_DT_RPATH),
        runpath=dynamic.texts.get(_DT_RUNPATH),
        stripped=not any(section.name == ".symtab" for section in elf.sections),
        debug_size=sum(part.size for part in elf.sections if _DEBUG.match(part.name) and elf.has(part)),
        glibc=newest_version("GLIBC_", versions),
        glibcxx=newest_version("GLIBCXX_", versions),
        symbols=elf.symbols(needs),
        device_code=elf.device_code(),
        x86_level=elf.x86_level(),
    )


def read_section_table(stream: IO[bytes], budget: Budget) -> dict[tuple[str, int], tuple[int, int]]:
    """Return (name, how many of that name precede) → (offset, size) of the non-empty sections, in their order.

    Raises as `BoundedFile` does.
    """
    counts: Counter[str] = Counter()
    table = {}
    for section in _Elf(stream, budget).sections:
        if section.stored and section.size:
            table[section.name, counts[section.name]] = section.offset, section.size
            counts[section.name] += 1
    return table


@dataclass(slots=True)
class _Dynamic:
    """The dynamic section: needs, and tag → name or path. Of repeated entries the first counts, as for the loader."""

    needed: list[str] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    has_versions: bool = False


class _Elf(BoundedFile):
    def __init__(self, stream: IO[bytes], budget: Budget) -> None:
        super().__init__(stream, budget)
        self._texts: dict[tuple[int, int], bytes] = {}
        identity = self.read(0, 16)
        if identity[:4] != b"\x7fELF" or identity[4] not in (1, 2) or identity[5] not in (1, 2):
            raise UnreadableBinary("not a valid ELF file")
        self.wide, self.little = identity[4] == 2, identity[5] == 1
        self._order = "<" if self.little else ">"
        layout = "HH4xQQQ4x2xHHHHH" if self.wide else "HH4xIII4x2xHHHHH"
        self.kind, self.machine, _, self._segments_at, self._sections_at, *sizes = self.unpack(self._order + layout, 16)
        segment_size, self._segment_count, section_size, self._section_count, self._names_index = sizes
        if self._segment_count and segment_size != (56 if self.wide else 32):
            raise UnreadableBinary(f"program headers of {segment_size} bytes")
        if self._sections_at and section_size != (64 if self.wide else 40):
            raise UnreadableBinary(f"section headers of {section_size} bytes")
        self._count_in_first_section()

    def _count_in_first_section(self) -> None:
        """Read counts that do not fit into the header."""
        if not self._sections_at:
            self._section_count = 0
        elif not self._section_count or _MORE in (self._segment_count, self._names_index):
            _, _, _, size, link, info = next(self._section_headers(1))
            self._section_count = self._section_count or size
            self._names_index = link if self._names_index == _MORE else self._names_index
            self._segment_count = info if self._segment_count == _MORE else self._segment_count
        if self._section_count > _MOST_ITEMS or self._segment_count > _MOST_ITEMS:
            raise UnreadableBinary("too many section or program headers")

    def _section_headers(self, count: int) -> Iterator[tuple[int, ...]]:
        """Return name, type, offset, size, link and info of each."""
        layout = "II16xQQII16x" if self.wide else "II8xIIII8x"
        return self.rows(self._order + layout, self._sections_at, count)

    @cached_property
    def sections(self) -> tuple[_Section, ...]:
        """All sections, the empty first one too."""
        headers = list(self._section_headers(self._section_count)) if self._section_count else []
        if not headers:
            return ()
        if self._names_index >= len(headers):
            raise UnreadableBinary("it has no table of its sections' names")
        _, _, at, size, _, _ = headers[self._names_index]
        names = self._text(at, size)
        texts = {name: self._name(names, name) for name in {header[0] for header in headers}}
        return tuple(_Section(texts[name], *fields) for name, *fields, _ in headers)

    @cached_property
    def _named(self) -> dict[str, _Section]:
        return {section.name: section for section in self.sections}

    @cached_property
    def _segments(self) -> tuple[_Segment, ...]:
        layout = self._order + ("I4xQQ8xQ16x" if self.wide else "III4xI12x")
        rows = self.rows(layout, self._segments_at, self._segment_count) if self._segment_count else ()
        return tuple(_Segment(*row) for row in rows)

    def _text(self, at: int, size: int) -> bytes:
        """Return a string table; each is read once."""
        if (at, size) not in self._texts:
            if size > LIMIT:
                raise UnreadableBinary(f"a table of names has {size:,} bytes")
            self.check_inside(at, size)
            self.budget.take_text(size)
            self._texts[at, size] = self.read(at, size)
        return self._texts[at, size]

    def _name(self, table: bytes, at: int, most: int = LONGEST_NAME) -> str:
        end = table.find(b"\0", at, at + most)
        if end < 0:
            raise UnreadableBinary("a name is outside its table, or has no end")
        self.budget.take_text(end - at)
        return table[at:end].decode("utf-8", "replace")

    def dynamic(self) -> _Dynamic:
        dynamic = _Dynamic()
        for segment in self._segments:
            if segment.kind == _PT_DYNAMIC and segment.stored:
                self._read_dynamic(segment, dynamic)
        return dynamic

    def _read_dynamic(self, segment: _Segment, dynamic: _Dynamic) -> None:
        layout, entry = (self._order + "qQ", 16) if self.wide else (self._order + "iI", 8)
        tags: list[tuple[int, int]] = []
        for tag, value in self.rows(layout, segment.offset, min(segment.stored // entry, _MOST_ITEMS)):
            if tag == _DT_NULL:
                break
            tags.append((tag, value))
        else:
            raise UnreadableBinary("its dynamic section does not end, or has too many entries")
        first = dict(reversed(tags))
        dynamic.has_versions |= _DT_VERNEED in first
        if not first.keys() & {_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH}:
            return
        table = self._dynamic_names(first)
        for tag, value in tags:
            if tag == _DT_NEEDED:
                self.budget.take_rows(NEED_ROWS)
                dynamic.needed.append(self._name(table, value))
        for tag, read in ((_DT_SONAME, self._name), (_DT_RPATH, self._paths), (_DT_RUNPATH, self._paths)):
            if tag in first and tag not in dynamic.texts:
                dynamic.texts[tag] = read(table, first[tag])

    def _paths(self, table: bytes, at: int) -> str:
        text = self._name(table, at, _LONGEST_PATHS)
        self.budget.take_rows(text.count(":"))
        return text

    def _dynamic_names(self, values: dict[int, int]) -> bytes:
        address, size = values.get(_DT_STRTAB), values.get(_DT_STRSZ, 0)
        for segment in self._segments:
            if segment.kind == _PT_LOAD and address is not None:
                within = address - segment.address
                if 0 <= within < segment.stored:
                    return self._text(segment.offset + within, size)
        raise UnreadableBinary("its dynamic section has no table of names")

    def has(self, section: _Section) -> bool:
        """Whether all bytes of a section are in the file."""
        return section.stored and section.offset + section.size <= self.size

    def version_needs(self) -> Iterator[VersionNeed]:
        """Yield each symbol version that is needed from other objects: ``GLIBC_2.17``, ``GLIBCXX_3.4.20``, …."""
        tables = self._version_tables(".gnu.version_r", _SHT_VERNEED)
        if tables is None:
            return
        data, texts = tables
        for at, (_, _, file, first, _) in self._chain(data, 0, "HHIII"):
            library = self._name(texts, file)
            for _, (_, flags, other, name, _) in self._chain(data, at + first, "IHHII"):
                weak = bool(flags & _VER_FLG_WEAK)
                yield VersionNeed(library, self._name(texts, name), other, weak)

    def _versions_defined(self) -> Iterator[str]:
        tables = self._version_tables(".gnu.version_d", _SHT_VERDEF)
        if tables is None:
            return
        data, texts = tables
        for at, (_, _, _, count, _, first, _) in self._chain(data, 0, "HHHHIII"):
            if count:
                # The others are its predecessors.
                _, (name, _) = next(self._chain(data, at + first, "II"))
                yield self._name(texts, name)

    def _version_tables(self, name: str, kind: int) -> tuple[bytes, bytes] | None:
        """Return a table of versions and its string table."""
        section = self._named.get(name)
        if section is None or section.kind != kind or not section.size:
            return None
        if section.link >= len(self.sections):
            raise UnreadableBinary(f"{name} has no table of names")
        linked = self.sections[section.link]
        return self._text(section.offset, section.size), self._text(linked.offset, linked.size)

    def _chain(self, data: bytes, at: int, layout: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the entries of a list with their offsets; the last field is the distance to the next entry."""
        row = struct.Struct(self._order + layout)
        while True:
            self.budget.take_rows(1)
            if at + row.size > len(data):
                raise UnreadableBinary("a table of versions ends too early")
            fields = row.unpack_from(data, at)
            yield at, fields
            if not fields[-1]:
                return
            at += fields[-1]

    def symbols(self, needs: list[VersionNeed]) -> Symbols:
        if not {".dynsym", ".dynstr"} <= self._named.keys():
            return Symbols()
        table, strings = self._named[".dynsym"], self._named[".dynstr"]
        entry = 24 if self.wide else 16
        versions = self._named.get(".gnu.version")
        if not (table.stored and strings.stored and (versions is None or versions.stored)):
            return Symbols()  # a file with debug information alone
        size = min(table.size, LIMIT)
        self.check_inside(table.offset, size)
        self.budget.take_rows(size // entry)
        texts = self._text(strings.offset, strings.size)
        return replace(
            read_symbols(
                self.read(table.offset, size),
                texts,
                self.read(versions.offset, min(versions.size, 2 * size // entry)) if versions else b"",
                needs,
                self.budget,
                wide=self.wide,
                little_endian=self.little,
            ),
            versions_needed=frozenset((need.library, need.version) for need in needs if not need.weak),
            versions_defined=frozenset(self._versions_defined()),
        )

    def x86_level(self) -> int:
        section = self._named.get(_NOTES)
        if section is None or not self.has(section) or _ARCHES.get((self.machine, self.little)) != "x86_64":
            return 0
        return needed_level(self.read(section.offset, min(section.size, _LARGEST_NOTES)), wide=self.wide)

    def device_code(self) -> DeviceCode:
        if self.sections:
            stored = [(section.name, section.offset, section.size) for section in self.sections if section.stored]
            return read_sections(self.stream, stored, self.budget)
        loaded = [(segment.offset, segment.stored) for segment in self._segments if segment.kind == _PT_LOAD]
        return search_segments(self.stream, loaded, self.budget)


def needed_level(notes: bytes, *, wide: bool) -> int:
    """Return the level (1 to 4) that notes ask for; 0 if they say nothing, or nothing that can be read."""
    bits = 0
    for kind, data in _properties(notes, 8 if wide else 4):
        if kind == _NEEDED_LEVEL and len(data) == 4:
            bits |= int.from_bytes(data, "little")
    # Each level has a bit, and the lower levels' are set, too.
    return min(bits.bit_length(), _LEVELS)


def _properties(notes: bytes, align: int) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 16 <= len(notes):
        owner, size, kind = struct.unpack_from("<III", notes, at)
        start = at + 12 + owner
        if kind == _PROPERTIES and notes[at + 12 : start] == b"GNU\0":
            inside, end = start, min(start + size, len(notes))
            while inside + 8 <= end:
                name, length = struct.unpack_from("<II", notes, inside)
                yield name, notes[inside + 8 : min(inside + 8 + length, end)]
                inside += 8 + _aligned(length, align)
        at = start + _aligned(size, align)


def _aligned(size: int, align: int) -> int:
    return -(-size // align) * align
