"""ELF objects as the dynamic loader sees them: machine, names, needs, symbol versions and device code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import IO, TypeVar

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection

from bakery.audit.fatbin import DeviceCode, read_sections, search_segments
from bakery.audit.symbols import LIMIT, Symbols, VersionNeed, read_symbols
from bakery.audit.tags import Release, release_text

_MOST_ITEMS = 20_000
"""The most sections, dynamic tags and version needs that are believed: libtorch has a few hundred."""

_ARCHES = {
    ("EM_386", True): "i686",
    ("EM_X86_64", True): "x86_64",
    ("EM_AARCH64", True): "aarch64",
    ("EM_ARM", True): "armv7l",
    ("EM_PPC64", True): "ppc64le",
    ("EM_PPC64", False): "ppc64",
    ("EM_S390", False): "s390x",
    ("EM_RISCV", True): "riscv64",
    ("EM_LOONGARCH", True): "loongarch64",
}
_DEVICES = frozenset({"EM_CUDA", "EM_AMDGPU", "EM_BPF", 190, 224, 247})
_DEBUG = re.compile(r"\.z?debug_|\.gdb_index$")
_SHARED = re.compile(r"\.so(\.|$)")
_DT_RELR = (2, 36)
_VER_FLG_WEAK = 2

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    offset: int
    size: int
    stored: bool

    def ends_within(self, size: int) -> bool:
        """Whether a file of ``size`` bytes really has it."""
        return self.stored and self.offset + self.size <= size


class UnreadableElf(ValueError):
    """A file that starts like an ELF object but cannot be read as one."""


@dataclass(frozen=True, slots=True)
class SharedObject:
    """One ELF shared object or program.

    Attributes:
        path: inside the wheel.
        size: in bytes.
        elf_class: 32 or 64.
        machine: as in platform tags (``x86_64``, ``aarch64``); ELF's own name for what has no tag.
        soname: its own name to the loader.
        needed: the sonames it asks for, in order.
        rpath: DT_RPATH as stored.
        runpath: DT_RUNPATH as stored.
        stripped: whether it has no ``.symtab``.
        debug_size: bytes of its debug sections in the file.
        glibc: the newest glibc its symbols ask for, as (major, minor).
        glibcxx: the newest GLIBCXX its symbols ask for, as (3, 4, n).
        symbols: what it wants of others, what it defines, and libstdc++'s ABI.
        device_code: its code for GPUs.
    """

    path: str
    size: int
    elf_class: int
    machine: str
    soname: str | None
    needed: tuple[str, ...]
    rpath: str | None
    runpath: str | None
    stripped: bool
    debug_size: int
    glibc: Release | None
    glibcxx: Release | None
    symbols: Symbols
    device_code: DeviceCode

    @property
    def file_name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name

    def to_json(self) -> dict[str, object]:
        """Return the object's row of the machine report."""
        return {
            "path": self.path,
            "size": self.size,
            "elf_class": self.elf_class,
            "machine": self.machine,
            "soname": self.soname,
            "needed": list(self.needed),
            "rpath": self.rpath,
            "runpath": self.runpath,
            "stripped": self.stripped,
            "debug_size": self.debug_size,
            "glibc": release_text(self.glibc),
            "glibcxx": release_text(self.glibcxx),
            "cxx_abi": self.symbols.cxx_abi,
            "device_code": self.device_code.to_json(),
        }


def read_elf(path: str, size: int, stream: IO[bytes]) -> SharedObject | None:
    """Return what ``stream`` holds, or None for an ELF file that no CPU loads (``.o``, cubin).

    Raises:
        UnreadableElf: it is damaged, or made to keep a reader busy.
    """
    try:
        return _read(path, size, stream)
    except UnreadableElf:
        raise
    except Exception as reason:  # pyelftools raises whatever a damaged file makes it stumble over
        raise UnreadableElf(f"not a valid ELF file ({type(reason).__name__}: {reason})") from reason


@dataclass(frozen=True, slots=True)
class SectionRange:
    """Where a section's bytes lie in a file.

    Attributes:
        key: its name, and how many sections of that name come before it.
    """

    key: tuple[str, int]
    offset: int
    size: int


def read_section_table(stream: IO[bytes]) -> tuple[SectionRange, ...]:
    """Return the sections of an ELF file that have bytes in it, in the file's order.

    Raises:
        UnreadableElf: it is damaged, or made to keep a reader busy.
    """
    try:
        elf = ELFFile(stream)
        _check_tables(elf)
        found = [section for section in _sections(elf) if section.stored and section.size]
    except UnreadableElf:
        raise
    except Exception as reason:  # pyelftools raises whatever a damaged file makes it stumble over
        raise UnreadableElf(f"not a valid ELF file ({type(reason).__name__}: {reason})") from reason
    seen: dict[str, int] = {}
    result = []
    for section in found:
        number = seen[section.name] = seen.get(section.name, -1) + 1
        result.append(SectionRange((section.name, number), section.offset, section.size))
    return tuple(result)


def _read(path: str, size: int, stream: IO[bytes]) -> SharedObject | None:
    elf = ELFFile(stream)
    header = elf.header
    named_shared = _SHARED.search(PurePosixPath(path).name) is not None
    if not named_shared and (header["e_type"] not in ("ET_DYN", "ET_EXEC") or header["e_machine"] in _DEVICES):
        return None
    _check_tables(elf)
    tags = _dynamic_tags(elf)
    needs = list(_version_needs(elf))
    versions = [need.version for need in needs]
    if "DT_VERNEED" in tags and not needs:
        raise UnreadableElf("it needs symbol versions, but its section headers do not show them")
    machine = header["e_machine"]
    sections = _sections(elf)
    return SharedObject(
        path=path,
        size=size,
        elf_class=int(elf.elfclass),
        machine=_ARCHES.get((machine, bool(elf.little_endian)), str(machine)),
        soname=_first(tags.get("DT_SONAME")),
        needed=tuple(tags.get("DT_NEEDED", ())),
        rpath=_first(tags.get("DT_RPATH")),
        runpath=_first(tags.get("DT_RUNPATH")),
        stripped=not any(section.name == ".symtab" for section in sections),
        debug_size=sum(found.size for found in sections if _DEBUG.match(found.name) and found.ends_within(size)),
        glibc=_floor("GLIBC_", versions),
        glibcxx=_floor("GLIBCXX_", versions),
        symbols=_symbols(elf, stream, sections, needs),
        device_code=_device_code(elf, stream, sections),
    )


def _check_tables(elf: ELFFile) -> None:
    """Refuse tables whose entries do not advance or whose count is absurd: iterating them never ends."""
    header = elf.header
    wide = elf.elfclass == 64
    if header["e_phnum"] and header["e_phentsize"] != (56 if wide else 32):
        raise UnreadableElf(f"program headers of {header['e_phentsize']} bytes")
    if header["e_shoff"] and header["e_shentsize"] != (64 if wide else 40):
        raise UnreadableElf(f"section headers of {header['e_shentsize']} bytes")
    if elf.num_sections() > _MOST_ITEMS or elf.num_segments() > _MOST_ITEMS:
        raise UnreadableElf("too many section or program headers")


def _dynamic_tags(elf: ELFFile) -> dict[str, list[str]]:
    """Return the dynamic section by tag; the text where the tag has one, else empty strings."""
    tags: dict[str, list[str]] = {}
    for segment in elf.iter_segments():
        if not isinstance(segment, DynamicSegment):
            continue
        for tag in _bounded(segment.iter_tags()):
            name = str(tag.entry.d_tag)
            text = name.removeprefix("DT_").lower()
            tags.setdefault(name, []).append(str(getattr(tag, text, "")))
    return tags


def _version_needs(elf: ELFFile) -> Iterator[VersionNeed]:
    """Yield each symbol version asked of other objects: ``GLIBC_2.17``, ``GLIBCXX_3.4.20``, …."""
    section = elf.get_section_by_name(".gnu.version_r")
    if isinstance(section, GNUVerNeedSection):
        pairs = ((need, version) for need, versions in section.iter_versions() for version in versions)
        for need, version in _bounded(pairs):
            weak = bool(version["vna_flags"] & _VER_FLG_WEAK)
            yield VersionNeed(str(need.name), str(version.name), version["vna_other"], weak)


def _versions_defined(elf: ELFFile) -> Iterator[str]:
    section = elf.get_section_by_name(".gnu.version_d")
    if isinstance(section, GNUVerDefSection):
        for _, names in _bounded(section.iter_versions()):
            yield from (str(name.name) for name in islice(names, 1))  # the others are its predecessors


def _sections(elf: ELFFile) -> tuple[_Section, ...]:
    return tuple(
        _Section(section.name, section["sh_offset"], section["sh_size"], section["sh_type"] != "SHT_NOBITS")
        for section in elf.iter_sections()
    )


def _symbols(elf: ELFFile, stream: IO[bytes], sections: tuple[_Section, ...], needs: list[VersionNeed]) -> Symbols:
    named = {section.name: section for section in sections}
    if not {".dynsym", ".dynstr"} <= named.keys():
        return Symbols()
    table, strings, versions = (
        _content(stream, named[name]) if name in named else b"" for name in (".dynsym", ".dynstr", ".gnu.version")
    )
    wide, little = elf.elfclass == 64, bool(elf.little_endian)
    return replace(
        read_symbols(table, strings, versions, needs, wide=wide, little_endian=little),
        versions_wanted=frozenset((need.library, need.version) for need in needs if not need.weak),
        versions_defined=frozenset(_versions_defined(elf)),
    )


def _content(stream: IO[bytes], section: _Section) -> bytes:
    stream.seek(section.offset)
    return stream.read(min(section.size, LIMIT))


def _device_code(elf: ELFFile, stream: IO[bytes], sections: tuple[_Section, ...]) -> DeviceCode:
    if sections:
        return read_sections(stream, [(found.name, found.offset, found.size) for found in sections if found.stored])
    loaded = [segment for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
    return search_segments(stream, [(segment["p_offset"], segment["p_filesz"]) for segment in loaded])


def _bounded(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield all ``items``, or raise UnreadableElf when there are too many."""
    iterator = iter(items)
    yield from islice(iterator, _MOST_ITEMS)
    if next(iterator, None) is not None:
        raise UnreadableElf("too many entries in a table")


def _floor(prefix: str, versions: list[str]) -> Release | None:
    """Return the newest release among the versions with ``prefix``.

    ``GLIBC_ABI_DT_RELR`` carries no number: it came with glibc 2.36.
    """
    found = [
        tuple(int(part) for part in version.removeprefix(prefix).split("."))
        for version in versions
        if re.fullmatch(re.escape(prefix) + r"\d{1,4}(\.\d{1,4})+", version)
    ]
    if prefix + "ABI_DT_RELR" in versions:
        found.append(_DT_RELR)
    return max(found, default=None)


def _first(values: list[str] | None) -> str | None:
    return values[0] if values else None
