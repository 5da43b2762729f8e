"""Which toolkit made the machine code of one GPU architecture (a cubin, which is an ELF file).

Only the beginning of the file is read. The facts about the format come from the output of ptxas 11.8.89, 12.4.131,
12.8.93, 12.9.86, 13.0.88 and 13.5.37 for architectures 52 to 120f:

- ELF ABI 7 (all of CUDA 11 and 12 up to sm_90): ``e_version`` is the toolkit's release (0x7c is 12.4), bit
  0x800 of ``e_flags`` is the ``a`` of ``sm_90a``.
- ELF ABI 8 (12.8 and 12.9 from sm_100 on, everything since 13.0): the note ``.note.nv.tkinfo`` (owner
  "NVIDIA Corp", type 2000) has the tool's version in text. The ``a`` is bit 0x8 of ``e_flags`` in 12.8 and
  12.9 only; later only the fat binary's entry has it.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

HEADER = 64
"""Bytes of an ELF header: enough for everything but the note."""

_HEADER = struct.Struct("<4s3x2B11xI24xI")
_EM_CUDA = 190
_OLD, _NEW = (51, 7), (65, 8)
_ACCELERATED = {_OLD: 0x800, _NEW: 0x8}
_NOTE = re.compile(rb"\x0c\0\0\0(.{4})\xd0\x07\0\0NVIDIA Corp\0", re.DOTALL)
_NOTE_LIMIT = 4096
_VERSION = re.compile(rb"\brelease \d+\.\d+, V(\d{1,3}\.\d{1,3}\.\d{1,5})\0")


@dataclass(frozen=True, slots=True)
class CubinFacts:
    """What a cubin states: the release of its assembler (``12.4``, ``13.0.88``, or empty), and whether it is for one
    exact architecture (``a``). With ``has_note``, the toolkit is in a note after the header.
    """

    toolkit: str = ""
    accelerated: bool = False
    has_note: bool = False


def read_cubin(head: bytes) -> CubinFacts | None:
    """Read the beginning of a cubin; None if it is not a cubin of a known kind."""
    if len(head) < HEADER or int.from_bytes(head[18:20], "little") != _EM_CUDA:
        return None
    magic, system, abi, version, flags = _HEADER.unpack_from(head)
    layout = (system, abi)
    if magic != b"\x7fELF" or layout not in _ACCELERATED:
        return None
    accelerated = bool(flags & _ACCELERATED[layout])
    if layout == _OLD:
        toolkit = f"{version // 10}.{version % 10}" if 100 <= version < 200 else ""
        return CubinFacts(toolkit, accelerated)
    return CubinFacts(_tool_note(head), accelerated, has_note=True)


def _tool_note(head: bytes) -> str:
    note = _NOTE.search(head)
    if note is None:
        return ""
    length = min(int.from_bytes(note[1], "little"), _NOTE_LIMIT)
    version = _VERSION.search(head[note.end() : note.end() + length])
    return version[1].decode() if version else ""
