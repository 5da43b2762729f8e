"""What the readers of machine code share: names, texts of bounded length, and the refusal of damaged files."""

from __future__ import annotations

from typing import Protocol

from bakery.audit.limits import LONGEST_NAME, Budget

NEED_ROWS = 10
"""Rows that the name of a needed library counts for: it is compared with all that a wheel may leave outside."""


class UnreadableBinary(ValueError):
    """A file that starts like machine code but cannot be read as such."""


class Binary(Protocol):
    """What is known of machine code of any format."""

    @property
    def path(self) -> str:
        """The path inside the wheel."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the file."""
        ...

    @property
    def file_name(self) -> str:
        """The last part of the path."""
        ...

    @property
    def soname(self) -> str | None:
        """Its own name to the loader, where the format has one."""
        ...

    def to_json(self) -> dict[str, object]:
        """Return its row of the machine report."""
        ...


def text_at(data: bytes, start: int, budget: Budget, end: int | None = None) -> str:
    """Return the text that ends with a NUL byte, from ``start`` and before ``end``.

    Raises:
        UnreadableBinary: it starts outside, or does not end.
        OverLimit: the file has too many names, or too long ones.
    """
    budget.take_rows(NEED_ROWS)
    limit = len(data) if end is None else min(end, len(data))
    stop = data.find(b"\0", start, min(limit, start + LONGEST_NAME)) if 0 <= start < limit else -1
    if stop < 0:
        # A load command may be filled to its end.
        if end is not None and 0 <= start < limit <= start + LONGEST_NAME:
            stop = limit
        else:
            raise UnreadableBinary("a name lies outside the file, or has no end")
    budget.take_text(stop - start)
    return data[start:stop].decode("utf-8", "replace")
