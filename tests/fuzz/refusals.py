"""What an error may be with which a reader refuses an input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bakery.core.errors import BakeryError


def assert_clean(error: BakeryError) -> None:
    """An error is lines of text that any terminal shows, and not too many."""
    lines = (error.message, error.hint, *error.details)
    assert error.message, "an error without a message"
    assert all(line.replace("\n", "").replace("\t", "").isprintable() for line in lines), "an unprintable error"
    assert sum(map(len, lines)) < 100_000, "an endless error"


@contextmanager
def refusals(kind: type[BakeryError] = BakeryError, *more: type[Exception]) -> Iterator[None]:
    """Let errors of a kind, or of others, end the context; they must be clean."""
    try:
        yield
    except kind as error:
        assert_clean(error)
    except more:
        pass
