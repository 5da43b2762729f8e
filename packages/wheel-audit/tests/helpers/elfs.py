"""A writer of tiny ELF shared objects: enough for a loader's view, valid to readelf and pyelftools."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence


def level_note(level: int) -> bytes:
    """Return the ``.note.gnu.property`` of an object that needs an x86-64 level, as GNU ld writes it."""
    # The note of GNU_PROPERTY_X86_FEATURE_1_AND comes first, as in real objects.
    properties = struct.pack("<IIII", 0xC0000002, 4, 3, 0) + struct.pack("<IIII", 0xC0008002, 4, (1 << level) - 1, 0)
    return struct.pack("<III", 4, len(properties), 5) + b"GNU\0" + properties


MACHINES = {"x86_64": 62, "aarch64": 183, "cuda": 190}
_NULL, _PROGBITS, _STRTAB, _DYNAMIC, _DYNSYM, _VERNEED = 0, 1, 3, 6, 11, 0x6FFFFFFE
_DT = {"NEEDED": 1, "STRTAB": 5, "STRSZ": 10, "SONAME": 14, "RPATH": 15, "RUNPATH": 29}
_DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF


def shared_object(
    machine: str = "x86_64",
    *,
    soname: str = "",
    needed: Sequence[str] = ("libc.so.6",),
    versions: Mapping[str, Sequence[str]] | None = None,
    rpath: str = "",
    runpath: str = "",
    kind: int = 3,
    wanted: Sequence[str] = (),
    defined: Sequence[str] = (),
    sections: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return a 64-bit little-endian object; ``versions`` maps a needed soname to its symbol versions.

    ``wanted`` and ``defined`` are dynamic symbols, ``sections`` more sections with their content.
    """
    needs = {"libc.so.6": ["GLIBC_2.17"]} if versions is None else versions
    strings = _Strings()
    verneed = _verneed(needs, strings)
    dynamic = [(_DT["NEEDED"], strings.add(name)) for name in needed]
    dynamic += [(_DT["SONAME"], strings.add(soname))] * bool(soname)
    dynamic += [(_DT["RPATH"], strings.add(rpath))] * bool(rpath)
    dynamic += [(_DT["RUNPATH"], strings.add(runpath))] * bool(runpath)
    symbols = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", strings.add(name), 0x12, 0, section, 0, 0)
        for names, section in ((wanted, 0), (defined, 1))
        for name in names
    )
    start = 64 + 2 * 56
    at_strings = start
    at_verneed = _align(at_strings + len(strings.data))
    at_dynamic = _align(at_verneed + len(verneed))
    dynamic += [(_DT["STRTAB"], at_strings), (_DT["STRSZ"], len(strings.data))]
    if needs:
        dynamic += [(_DT_VERNEED, at_verneed), (_DT_VERNEEDNUM, len(needs))]
    table = b"".join(struct.pack("<QQ", *row) for row in [*dynamic, (0, 0)])
    more = {".dynsym": symbols, **(sections or {})}
    names = b"\0.dynstr\0.gnu.version_r\0.dynamic\0.shstrtab\0" + b"".join(name.encode() + b"\0" for name in more)
    at_names = at_dynamic + len(table)
    at_more = _align(at_names + len(names))
    contents = bytearray()
    extra = []
    for name, content in more.items():
        symbolic = {"link": 1, "info": 1, "entry": 24} if name == ".dynsym" else {}
        kind_of = _DYNSYM if name == ".dynsym" else _PROGBITS
        extra.append(
            _section(names.index(name.encode() + b"\0"), kind_of, at_more + len(contents), len(content), **symbolic)
        )
        contents += content + bytes(-len(content) % 8)
    at_sections = at_more + len(contents)
    sections = [
        _section(0, _NULL, 0, 0),
        _section(names.index(b".dynstr"), _STRTAB, at_strings, len(strings.data)),
        _section(names.index(b".gnu.version_r"), _VERNEED, at_verneed, len(verneed), link=1, info=len(needs)),
        _section(names.index(b".dynamic"), _DYNAMIC, at_dynamic, len(table), link=1, entry=16),
        _section(names.index(b".shstrtab"), _STRTAB, at_names, len(names)),
        *extra,
    ]
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header = ident + struct.pack(
        "<HHIQQQIHHHHHH", kind, MACHINES[machine], 1, 0, 64, at_sections, 0, 64, 56, 2, 64, len(sections), 4
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, at_sections, at_sections, 4096)
    point = struct.pack("<IIQQQQQQ", 2, 6, at_dynamic, at_dynamic, at_dynamic, len(table), len(table), 8)
    body = bytearray(at_sections)
    for at, part in (
        (0, header + load + point),
        (at_strings, bytes(strings.data)),
        (at_verneed, verneed),
        (at_dynamic, table),
        (at_names, names),
        (at_more, bytes(contents)),
    ):
        body[at : at + len(part)] = part
    return bytes(body) + b"".join(sections)


class _Strings:
    def __init__(self) -> None:
        self.data = bytearray(b"\0")

    def add(self, text: str) -> int:
        offset = len(self.data)
        self.data += text.encode() + b"\0"
        return offset


def _verneed(needs: Mapping[str, Sequence[str]], strings: _Strings) -> bytes:
    out = b""
    for index, (library, versions) in enumerate(needs.items()):
        follows = index < len(needs) - 1
        size = 16 + 16 * len(versions)
        out += struct.pack("<HHIII", 1, len(versions), strings.add(library), 16, size if follows else 0)
        for number, version in enumerate(versions):
            after = 16 if number < len(versions) - 1 else 0
            out += struct.pack("<IHHII", 0, 0, number + 2, strings.add(version), after)
    return out


def _section(name: int, kind: int, offset: int, size: int, *, link: int = 0, info: int = 0, entry: int = 0) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, 2, offset, offset, size, link, info, 8, entry)


def _align(offset: int) -> int:
    return (offset + 7) & ~7
