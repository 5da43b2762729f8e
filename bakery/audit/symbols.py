"""The dynamic symbols of an ELF object, read in one pass and reduced to what the audit asks of them.

libtorch has a hundred thousand: what an object wants of others are its own few names, and what it defines is kept as
eight bytes each, enough to answer for a name.
"""

from __future__ import annotations

import re
import struct
import sys
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from bakery.audit.limits import Budget
from bakery.audit.tags import Release, parse_release

CxxAbi = Literal["", "cxx11", "old", "mixed"]
"""libstdc++'s ABI of strings (``_GLIBCXX_USE_CXX11_ABI``): 1, 0, both; empty where no symbol tells."""

LIMIT = 128 << 20
"""The most bytes of a symbol or string table that are read."""

_LONGEST = 1 << 16
"""The most bytes of a name: templates of C++ make some of several thousand."""
_REUSE = 8
"""How often names may share the same bytes (``bar`` is the end of ``foobar``); more is made to keep a reader busy."""
_SYMBOL = {(True, True): "<IBBH16x", (True, False): ">IBBH16x", (False, True): "<I8xBBH", (False, False): ">I8xBBH"}
_STB_LOCAL, _STB_GLOBAL = 0, 1
_INDEX = 0x7FFF
# A function that takes the old std::string by reference. Not one of std: Red Hat's gcc-toolset links a part of
# libstdc++ into everything, old names included.
_OLD_STRING = re.compile(rb"\0_Z(?!NK?S[ts]|St)[^\0]*ERKSs")


@dataclass(frozen=True, slots=True)
class VersionNeed:
    """One symbol version that is asked of a library: its soname, the version, its number in the symbol table.

    A weak one may be missing.
    """

    library: str
    version: str
    index: int
    weak: bool = False


def newest_version(prefix: str, versions: list[str]) -> Release | None:
    """Return the newest release among the versions with ``prefix``.

    ``GLIBC_ABI_DT_RELR`` carries no number: it came with glibc 2.36.
    """
    matches = (re.fullmatch(re.escape(prefix) + r"(\d{1,4}(?:\.\d{1,4})+)", version) for version in versions)
    releases = [parse_release(match[1]) for match in matches if match]
    return max(releases + [(2, 36)] * (prefix + "ABI_DT_RELR" in versions), default=None)


@dataclass(frozen=True, slots=True)
class Symbols:
    """What the dynamic symbols say.

    Attributes:
        undefined: names that must come from elsewhere, to the soname that promised them by version when the object was
            linked; an empty one where a name has no version. Weak ones, which may stay undefined, are left out.
        versions_needed: (soname, version) that must be there.
        versions_defined: the versions that the object's own symbols have.
        cxx_abi: libstdc++'s ABI.
        defined: hashes of the names it defines, of this process.
    """

    undefined: Mapping[str, str] = field(default_factory=dict)
    versions_needed: frozenset[tuple[str, str]] = frozenset()
    versions_defined: frozenset[str] = frozenset()
    cxx_abi: CxxAbi = ""
    defined: array[int] = field(default_factory=lambda: array("q"), repr=False)

    def provides(self, names: Mapping[int, str]) -> frozenset[str]:
        """Return those of ``names`` (hash of a name → the name) that the object defines."""
        return frozenset(names[number] for number in self.defined if number in names)


def read_symbols(
    table: bytes,
    strings: bytes,
    versions: bytes,
    needs: Iterable[VersionNeed],
    *,
    wide: bool,
    little_endian: bool,
    budget: Budget | None = None,
) -> Symbols:
    """Return what ``.dynsym``, its string table and ``.gnu.version`` say; a bad name is passed over.

    Args:
        budget: what is left for the whole wheel; None for tables by themselves.

    Raises:
        OverLimit: the names take more than the budget has.
    """
    entry = struct.Struct(_SYMBOL[wide, little_endian])
    libraries = {need.index: need.library for need in needs}
    numbers = _numbers(versions, little_endian=little_endian)
    undefined: dict[str, str] = {}
    defined = array("q")
    budget = budget or Budget.of(len(strings))
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
    new = b"__cxx11" in strings
    old = _OLD_STRING.search(strings) is not None
    abi: CxxAbi = "mixed" if new and old else "cxx11" if new else "old" if old else ""
    return Symbols(undefined, cxx_abi=abi, defined=defined)


def _numbers(versions: bytes, *, little_endian: bool) -> array[int]:
    numbers = array("H", versions[: len(versions) // 2 * 2])
    if little_endian is not (sys.byteorder == "little"):
        numbers.byteswap()
    return numbers
