"""A writer of fat binaries, and the real ones of ``data/fatbin`` with what cuobjdump lists for each."""

from __future__ import annotations

import re
import struct
from pathlib import Path

DATA = Path(__file__).parents[1] / "data/fatbin"
NAMES = sorted(path.stem for path in DATA.glob("*.so"))
PTX, ELF, LTO = 1, 2, 8
ACCELERATED, FAMILY = 0x100000, 0x200000
LZ4, ZSTD = 0x2000, 0x8000
_PREFIXES = {"elf": "sm_", "ptx": "compute_", "nvvm": "lto_"}


def real(name: str) -> bytes:
    return (DATA / f"{name}.so").read_bytes()


def listed(name: str) -> list[tuple[str, str, bool]]:
    """Return cuobjdump's listing: architecture, PTX version, whether compressed, for each image in order."""
    text = (DATA / f"{name}.txt").read_text()
    rows = []
    for block in re.split(r"\n(?=Fatbin )", text):
        if match := re.match(r"Fatbin (\w+) code:\n=+\narch = sm_(\w+)\ncode version = \[(\d+),(\d+)\]", block):
            kind, arch, major, minor = match.groups()
            isa = f"{major}.{minor}" if kind == "ptx" else ""
            rows.append((_PREFIXES[kind] + arch, isa, "\ncompressed\n" in f"{block}\n"))
    return rows


def entry(
    kind: int, arch: int, payload: bytes = bytes(8), *, flags: int = 0, version: tuple[int, int] = (1, 8)
) -> bytes:
    major, minor = version
    packed = len(payload) if flags & (LZ4 | ZSTD) else 0
    padded = payload + bytes(-len(payload) % 8)
    return (
        struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(padded), packed, 0, minor, major, arch, 0, 0, flags, 0, 0)
        + padded
    )


def fatbin(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def cubin(arch: int, *, toolkit: int = 128, accelerated: bool = False) -> bytes:
    """Return the header of a cubin as CUDA 12 writes it: ``toolkit`` 128 is 12.8."""
    flags = arch << 16 | 0x500 | arch | (0x800 if accelerated else 0)
    ident = b"\x7fELF" + bytes([2, 1, 1, 51, 7]) + bytes(7)
    return ident + struct.pack("<HHIQQQIHHHHHH", 2, 190, toolkit, 0, 0, 0, flags, 64, 56, 0, 64, 0, 0)


def for_archs(*archs: str, toolkit: int = 128, isa: tuple[int, int] = (8, 7)) -> bytes:
    """Return a fat binary for ``sm_80``, ``sm_90a``, ``compute_90``, …."""
    entries = []
    for arch in archs:
        prefix, _, name = arch.partition("_")
        number = int(name.rstrip("af"))
        flags = {"a": ACCELERATED, "f": FAMILY}.get(name[-1], 0)
        if prefix == "sm":
            entries.append(entry(ELF, number, cubin(number, toolkit=toolkit), flags=flags))
        else:
            entries.append(entry(PTX, number, b".version 8.7\n", flags=flags, version=isa))
    return fatbin(*entries)
