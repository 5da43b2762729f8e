"""The dynamic symbols of an ELF object, read in one pass and reduced to what the audit asks of them.

Not by pyelftools: it makes an object for each symbol, and libtorch has a hundred thousand.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Literal

CxxAbi = Literal["", "cxx11", "old", "mixed"]
"""libstdc++'s ABI of strings (``_GLIBCXX_USE_CXX11_ABI``): 1, 0, both; empty where no symbol tells."""

LIMIT = 128 << 20
"""The most bytes of a symbol or string table that are read."""

_SYMBOL = {(64, True): "<IBBH16x", (64, False): ">IBBH16x", (32, True): "<I8xBBH", (32, False): ">I8xBBH"}
_STB_GLOBAL = 1
# cuFile (libcufile) is the one library of NVIDIA's whose names look like the driver's.
_DRIVER = re.compile(rb"cu(?!File)[A-Z][A-Za-z0-9_]*")
# A function that takes the old std::string by reference. Not one of std: Red Hat's gcc-toolset links a part of
# libstdc++ into everything, old names included.
_OLD_STRING = re.compile(rb"\0_Z(?!NK?S[ts]|St)[^\0]*ERKSs")


@dataclass(frozen=True, slots=True)
class Symbols:
    """What the dynamic symbols say.

    Attributes:
        driver_wanted: functions of the CUDA driver that must come from elsewhere, sorted.
        driver_defined: those that the object defines itself.
        cxx_abi: libstdc++'s ABI.
    """

    driver_wanted: tuple[str, ...] = ()
    driver_defined: tuple[str, ...] = ()
    cxx_abi: CxxAbi = ""


def read_symbols(table: bytes, strings: bytes, elf_class: int, *, little_endian: bool) -> Symbols:
    """Return what ``.dynsym`` and its string table say; never fails, a name out of bounds is empty."""
    entry = struct.Struct(_SYMBOL[elf_class, little_endian])
    wanted: set[str] = set()
    defined: set[str] = set()
    for name_at, info, _, section in entry.iter_unpack(table[: len(table) // entry.size * entry.size]):
        # Most names are not the driver's: a look at two bytes spares the rest.
        if strings[name_at : name_at + 2] == b"cu":
            name = strings[name_at : strings.find(b"\0", name_at)]
            if _DRIVER.fullmatch(name) and len(name) < 200:
                if section:
                    defined.add(name.decode())
                elif info >> 4 == _STB_GLOBAL:  # a weak one may stay undefined
                    wanted.add(name.decode())
    new = b"__cxx11" in strings
    old = _OLD_STRING.search(strings) is not None
    abi: CxxAbi = "mixed" if new and old else "cxx11" if new else "old" if old else ""
    return Symbols(tuple(sorted(wanted)), tuple(sorted(defined)), abi)
