"""LZ4 blocks unpacked without a library, for the few kilobytes of device code whose header is wanted.

Format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md. ``fatbinary`` of CUDA 11.8 to 13.5 writes
plain blocks (compared byte by byte with what ``cuobjdump -xelf`` extracts).
"""

from __future__ import annotations


def unpack(packed: bytes, limit: int) -> bytes:
    """Return the first ``limit`` bytes of what a block holds, or all of it where that is less.

    Raises:
        ValueError: the block is damaged before that point.
    """
    out = bytearray()
    at = 0
    while at < len(packed) and len(out) < limit:
        token = packed[at]
        literals, at = _length(packed, at + 1, token >> 4)
        if at + literals > len(packed):
            raise ValueError("an LZ4 block ends inside its literals")
        out += packed[at : at + literals]
        at += literals
        if at == len(packed):
            break  # the last sequence has no match
        distance = int.from_bytes(packed[at : at + 2], "little")
        length, at = _length(packed, at + 2, token & 15)
        if not 0 < distance <= len(out):
            raise ValueError("an LZ4 block refers to bytes before its start")
        # A hostile length must not make gigabytes: nothing beyond the limit is wanted.
        count = min(length + 4, max(0, limit - len(out)))
        start = len(out) - distance
        source = bytes(out[start : start + count])
        out += (source * (count // distance + 1))[:count]
    return bytes(out[:limit])


def _length(packed: bytes, at: int, start: int) -> tuple[int, int]:
    """Return a length that began as four bits in the token, and where reading goes on."""
    length = start
    if start == 15:
        while True:
            if at >= len(packed):
                raise ValueError("an LZ4 block ends inside a length")
            length += packed[at]
            at += 1
            if packed[at - 1] != 255:
                break
    return length, at
