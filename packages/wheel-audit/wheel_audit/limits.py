"""How much work one wheel may cause. A hostile one costs far more than its size suggests.

`Budget` limits the work of the readers: rows of tables, bytes of text and bytes read, summed over the whole wheel, so
that many small tables count like a large one. `Limits` limits the process that audits the wheel, and so everything that
no budget counts. All limits grow linearly with the size of the file.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1 << 20

EXPANSION_FLOOR = 256 * _MIB
"""Bytes that even the smallest wheel may unpack to: half a second of work."""

EXPANSION_CEILING = 64 << 30

LONGEST_NAME = 4096
"""Bytes of a member's path or of a library's name: the longest path of any system."""

LARGEST_DIRECTORY = 16 * _MIB
"""Limit of a zip archive's table of members: 175,000 members with names of 50 characters. The wheels with the most
files have some 40,000."""


class OverLimit(Exception):
    """Reading a wheel takes more than its size allows; the message names the limit."""


@dataclass(slots=True)
class Budget:
    """The remaining work for the readers of one wheel.

    Attributes:
        rows: entries of tables: sections, segments, dynamic tags, symbols, versions, load commands, images of device
            code, lines of RECORD. A row of a real wheel needs more than four bytes of the compressed file: in RECORD it
            has a hash, a symbol has a name. 100,000 rows take about 0.2 seconds.
        text: bytes of names and their tables. C++ names compress at most 20 to 1.
        data: bytes read from unpacked members: each byte is hashed once and parsed about twice.
    """

    rows: int
    text: int
    data: int

    @classmethod
    def of(cls, size: int, unpacked: int | None = None) -> Budget:
        """Return the budget of a wheel, or of a single file, of ``size`` bytes."""
        rows, text = 100_000 + size // 4, 16 * _MIB + 32 * size
        return cls(rows, text, 32 * _MIB + 3 * (size if unpacked is None else unpacked))

    def take_rows(self, count: int) -> None:
        """Take ``count`` rows, or raise `OverLimit`."""
        self.rows -= count
        if self.rows < 0:
            raise OverLimit("its tables have more rows than its size allows (100,000 and one for 4 bytes)")

    def take_text(self, count: int) -> None:
        """Take ``count`` bytes of text, or raise `OverLimit`."""
        self.text -= count
        if self.text < 0:
            raise OverLimit("its tables have longer names than its size allows (16 MiB and 32 times its size)")

    def take_data(self, count: int) -> None:
        """Take ``count`` bytes of content, or raise `OverLimit`."""
        self.data -= count
        if self.data < 0:
            raise OverLimit("its tables refer to the same bytes too often (32 MiB and 3 times its content)")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a process that reads one wheel, and of each tool that it starts.

    ``memory`` is bytes of address space, ``cpu`` seconds of CPU time, ``seconds`` the time until it ends.
    """

    memory: int
    cpu: int
    seconds: int

    @classmethod
    def of(cls, size: int) -> Limits:
        """Return the limits for a file of ``size`` bytes.

        Memory: the audit of a small wheel and each tool need less than 250 MiB of address space, symbol tables of large
        libraries more. Time: a small wheel takes 2 seconds and one of a gigabyte some minutes on an idle machine; a
        bake may run at the same time, and the processor may be emulated.
        """
        megabytes = size // _MIB
        return cls(memory=512 * _MIB + 4 * min(size, 2 << 30), cpu=60 + megabytes, seconds=300 + 4 * megabytes)


def expansion_limit(size: int) -> int:
    """Return how many bytes an archive of ``size`` bytes may unpack to.

    Device code compresses well, but real wheels stay below 20 to 1, except small ones.
    """
    return min(EXPANSION_CEILING, max(EXPANSION_FLOOR, 100 * size))
