"""The dynamic symbols of an ELF object, read in one pass and reduced to what the audit needs.

libtorch has a hundred thousand symbols: undefined ones are stored by name, defined ones as a hash of eight bytes.
"""

from __future__ import annotations

import re
import struct
import sys
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from wheel_audit.limits import Budget
from wheel_audit.tags import Release, parse_release

CxxAbi = Literal["", "cxx11", "old", "mixed"]
"""libstdc++'s ABI of strings (``_GLIBCXX_USE_CXX11_ABI``): 1, 0, both; empty if no symbol shows it."""

LIMIT = 128 << 20
"""Limit of a symbol or string table, in bytes."""

_LONGEST = 1 << 16
"""Limit of a name, in bytes: some of C++ templates have several thousand."""
_REUSE = 8
"""How often names may share the same bytes (``bar`` is the end of ``foobar``); more would only slow down a reader."""
_SYMBOL = {(True, True): "<IBBH16x", (True, False): ">IBBH16x", (False, True): "<I8xBBH", (False, False): ">I8xBBH"}
_STB_LOCAL, _STB_GLOBAL = 0, 1
_INDEX = 0x7FFF
# A function that takes the old std::string by reference. Not one of std: Red Hat's gcc-toolset links a part of
# libstdc++, with old names, into everything.
_OLD_STRING = re.compile(rb"\0_Z(?!NK?S[ts]|St)[^\0]*ERKSs")


@dataclass(frozen=True, slots=True)
class VersionNeed:
    """A symbol version that is needed from a library (a soname), and its number in the symbol table.

    A weak one may be missing.
    """

    library: str
    version: str
    index: int
    weak: bool = False


def newest_version(prefix: str, versions: list[str]) -> Release | None:
    """Return the newest release among the versions with ``prefix``. ``GLIBC_ABI_DT_RELR`` came with glibc 2.36."""
    matches = (re.fullmatch(re.escape(prefix) + r"(\d{1,4}(?:\.\d{1,4})+)", version) for version in versions)
    releases = [parse_release(match[1]) for match in matches if match]
    return max(releases + [(2, 36)] * (prefix + "ABI_DT_RELR" in versions), default=None)


@dataclass(frozen=True, slots=True)
class Symbols:
    """The dynamic symbols of one object.

    ``undefined`` has name → the soname that its version belongs to, empty for a name without version; weak names, which
    may stay undefined, are omitted. ``versions_needed`` has (soname, version) that must exist, ``versions_defined`` the
    versions of the object's symbols, ``defined`` hashes of its names, valid in this process.
    """

    undefined: Mapping[str, str] = field(default_factory=dict)
    versions_needed: frozenset[tuple[str, str]] = frozenset()
    versions_defined: frozenset[str] = frozenset()
    cxx_abi: CxxAbi = ""
    defined: array[int] = field(default_factory=lambda: array("q"), repr=False)

    def provides(self, names: Mapping[int, str]) -> frozenset[str]:
        """Return the ``names`` (hash → name) that the object defines."""
        return frozenset(names[number] for number in self.defined if number in names)


def read_symbols(
    table: bytes,
    strings: bytes,
    versions: bytes,
    needs: Iterable[VersionNeed],
    budget: Budget,
    *,
    wide: bool,
    little_endian: bool,
) -> Symbols:
    """Read ``.dynsym``, its string table and ``.gnu.version``. Invalid names are skipped; raises OverLimit."""
    entry = struct.Struct(_SYMBOL[wide, little_endian])
    libraries = {need.index: need.library for need in needs}
    numbers = _numbers(versions, little_endian=little_endian)
    undefined: dict[str, str] = {}
    defined = array("q")
    left = _REUSE * len(strings)
    for index, (at, info, _, section) in enumerate(entry.iter_unpack(table[: len(table) // entry.size * entry.size])):
        binding = info >> 4
        if not at or binding == _STB_LOCAL or (not section and binding != _STB_GLOBAL):
            continue
        end = strings.find(b"\0", at, at + _LONGEST)
        left -= end - at
        if end <= at or left < 0:
            continue
        budget.take_text(end - at)
        name = strings[at:end].decode("utf-8", "replace")
        if section:
            defined.append(hash(name))
        else:
            undefined[name] = libraries.get(numbers[index] & _INDEX, "") if index < len(numbers) else ""
    abi = cxx_abi(new=b"__cxx11" in strings, old=_OLD_STRING.search(strings) is not None)
    return Symbols(undefined, cxx_abi=abi, defined=defined)


def cxx_abi(*, new: bool, old: bool) -> CxxAbi:
    """Return the ABI of an object with new strings, old ones, or both."""
    if new:
        return "mixed" if old else "cxx11"
    return "old" if old else ""


def _numbers(versions: bytes, *, little_endian: bool) -> array[int]:
    numbers = array("H", versions[: len(versions) // 2 * 2])
    if little_endian is not (sys.byteorder == "little"):
        numbers.byteswap()
    return numbers
