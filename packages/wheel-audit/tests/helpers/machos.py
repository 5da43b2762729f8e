"""A writer of tiny Mach-O files: headers and load commands, as macOS' loader and otool read them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

MACHINES = {"x86_64": 0x01000007, "arm64": 0x0100000C}
KINDS = {"object": 1, "program": 2, "library": 6, "module": 8}
SYSTEM = "/usr/lib/libSystem.B.dylib"


def thin(
    machine: str = "arm64",
    *,
    kind: str = "module",
    floor: tuple[int, int] = (11, 0),
    platform: int = 1,
    name: str = "",
    needed: Sequence[str] = (SYSTEM,),
    weak: Sequence[str] = (),
    rpaths: Sequence[str] = (),
    signed: bool = True,
    old: bool = False,
) -> bytes:
    """Return a 64-bit file; ``old`` tells its oldest system as compilers did before 2018."""
    version = floor[0] << 16 | floor[1] << 8
    commands = [struct.pack("<IIII", 0x24, 16, version, version)] if old else []
    commands += [] if old else [struct.pack("<IIIIII", 0x32, 24, platform, version, version, 0)]
    commands += [_library(0xD, name)] if name else []
    commands += [_library(0xC, item) for item in needed]
    commands += [_library(0x80000018, item) for item in weak]
    commands += [_text(0x8000001C, struct.pack("<I", 12), path) for path in rpaths]
    commands += [struct.pack("<IIII", 0x1D, 16, 0, 0)] if signed else []
    body = b"".join(commands)
    header = struct.pack("<IIIIIIII", 0xFEEDFACF, MACHINES[machine], 0, KINDS[kind], len(commands), len(body), 0x85, 0)
    return header + body + bytes(64)


def universal(*parts: bytes) -> bytes:
    """Return a file with several machines' code."""
    out = bytearray(struct.pack(">II", 0xCAFEBABE, len(parts)) + bytes(20 * len(parts)))
    for number, part in enumerate(parts):
        out += bytes(-len(out) % 64)
        machine = struct.unpack_from("<I", part, 4)[0]
        struct.pack_into(">IIIII", out, 8 + 20 * number, machine, 0, len(out), len(part), 6)
        out += part
    return bytes(out)


def _library(command: int, name: str) -> bytes:
    return _text(command, struct.pack("<IIII", 24, 0, 0x10000, 0x10000), name)


def _text(command: int, head: bytes, text: str) -> bytes:
    body = head + text.encode() + b"\0"
    body += bytes(-(8 + len(body)) % 8)
    return struct.pack("<II", command, 8 + len(body)) + body
