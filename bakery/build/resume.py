"""What an earlier run has done with, and what the journal of a new one begins with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from bakery.build.buildx.outcome import Result
from bakery.build.journal import Record
from bakery.build.options import Again
from bakery.build.publish import holds


def is_left_out(again: Again, record: Record | None, key: str, output: Path) -> bool:
    """Say whether an earlier run has done with a cell, as far as that run is to be gone on with.

    Args:
        record: what is known of the cell.
        key: digest of all that defines it now.
        output: the folder of its wheels, which has the last word.
    """
    if again is Again.FAILED:
        return record is None or record.result is not Result.FAILED
    return (
        again is Again.UNFINISHED
        and record is not None
        and record.result is Result.DONE
        and record.key == key
        and all(holds(output, wheel.name, wheel.sha256) for wheel in record.wheels)
    )


def carried(known: Mapping[str, Record], begun: Mapping[str, str], cells: Collection[str]) -> list[Record]:
    """Return what a journal begins with: what is not made now is as it was, the rest is unfinished.

    Args:
        known: cell → what the last run knew.
        begun: cell → key of those that are made now.
        cells: all that the recipe has.
    """
    rest = [record for name, record in known.items() if name in cells and name not in begun]
    memory = {name: record.memory for name, record in known.items()}
    return [*rest, *(Record(name, key, Result.CANCELED, memory.get(name, 0)) for name, key in begun.items())]
