"""Shared by the readers of machine code: the common facts, and reads within the bounds of a file and a budget."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import PurePosixPath
from typing import IO, Any

from wheel_audit.limits import LONGEST_NAME, Budget

NEED_ROWS = 10
"""Rows that the name of a needed library counts for: it is compared with all libraries that a wheel may exclude."""


class UnreadableBinary(ValueError):
    """A file that starts like machine code but cannot be read as such."""


@dataclass(frozen=True, slots=True)
class Binary:
    """Machine code of any format: its path inside the wheel, its size in bytes, and its own name for the loader."""

    path: str
    size: int
    soname: str | None

    @property
    def file_name(self) -> str:
        """The last component of the path."""
        return PurePosixPath(self.path).name

    def to_json(self) -> dict[str, object]:
        """Return the object's row of the machine report."""
        return to_row(self)


def to_row(item: Any, *omitted: str, **replaced: object) -> dict[str, object]:
    """Return the fields of a dataclass for a machine report, except those ``omitted``."""
    row = {field.name: getattr(item, field.name) for field in fields(item) if field.name not in omitted}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()} | replaced


class BoundedFile:
    """Reads parts of one file within a budget.

    Its methods raise `UnreadableBinary` if a part is outside the file, and `OverLimit` if the budget is used up.
    """

    def __init__(self, stream: IO[bytes], budget: Budget) -> None:
        self.stream = stream
        self.budget = budget
        self.size = stream.seek(0, 2)

    def check_inside(self, at: int, size: int) -> None:
        """Refuse the claims of a damaged table before they count as work."""
        if at + size > self.size:
            raise UnreadableBinary("it ends too early")

    def read(self, at: int, size: int) -> bytes:
        """Return ``size`` bytes."""
        self.check_inside(at, size)
        self.budget.take_data(size)
        self.stream.seek(at)
        data = self.stream.read(size)
        if len(data) != size:
            raise UnreadableBinary("it ends too early")
        return data

    def unpack(self, layout: str, at: int) -> tuple[Any, ...]:
        """Return the fields of one ``struct``."""
        return struct.unpack(layout, self.read(at, struct.calcsize(layout)))

    def rows(self, layout: str, at: int, count: int) -> Iterator[tuple[Any, ...]]:
        """Return the fields of ``count`` consecutive structs."""
        size = count * struct.calcsize(layout)
        self.check_inside(at, size)
        self.budget.take_rows(count)
        return struct.iter_unpack(layout, self.read(at, size))


def text_at(data: bytes, start: int, budget: Budget, end: int | None = None) -> str:
    """Return the NUL-terminated text from ``start`` to before ``end``; raise as `BoundedFile` does."""
    budget.take_rows(NEED_ROWS)
    limit = len(data) if end is None else min(end, len(data))
    stop = data.find(b"\0", start, min(limit, start + LONGEST_NAME)) if 0 <= start < limit else -1
    if stop < 0:
        # A load command may be filled to its end.
        if end is not None and 0 <= start < limit <= start + LONGEST_NAME:
            stop = limit
        else:
            raise UnreadableBinary("a name is outside the file, or has no end")
    budget.take_text(stop - start)
    return data[start:stop].decode("utf-8", "replace")
