"""The x86-64 level that an ELF file says it needs, in the note that ``gcc -mneeded`` asks the linker for.

Source: x86-64 psABI, "Program Property" (``GNU_PROPERTY_X86_ISA_1_NEEDED``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

SECTION = ".note.gnu.property"
LARGEST = 1 << 16
"""Bytes of notes that are read; compilers write fewer than 100."""

_PROPERTIES, _NEEDED = 5, 0xC0008002
_OWNER = b"GNU\0"
_LEVELS = 4


def needed_level(notes: bytes, *, wide: bool) -> int:
    """Return the level (1 to 4) that notes ask for; 0 if they say nothing, or nothing that can be read."""
    bits = 0
    for kind, data in _properties(notes, 8 if wide else 4):
        if kind == _NEEDED and len(data) == 4:
            bits |= int.from_bytes(data, "little")
    # Each level has a bit, and the lower levels' are set, too.
    return min(bits.bit_length(), _LEVELS)


def _properties(notes: bytes, align: int) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 16 <= len(notes):
        owner, size, kind = struct.unpack_from("<III", notes, at)
        start = at + 12 + owner
        if kind == _PROPERTIES and notes[at + 12 : start] == _OWNER:
            inside, end = start, min(start + size, len(notes))
            while inside + 8 <= end:
                name, length = struct.unpack_from("<II", notes, inside)
                yield name, notes[inside + 8 : min(inside + 8 + length, end)]
                inside += 8 + _up(length, align)
        at = start + _up(size, align)


def _up(size: int, align: int) -> int:
    return -(-size // align) * align
