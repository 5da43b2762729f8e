"""What an earlier run finished, and the records that the journal of a new run begins with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from bakery.build.buildx.outcome import Result
from bakery.build.journal import Record
from bakery.build.options import CellSelection
from bakery.build.publish import holds


def is_finished(selection: CellSelection, record: Record | None, key: str, output: Path) -> bool:
    """Return whether a cell is not built again.

    Args:
        record: of the last run.
        key: digest of the cell's inputs now.
        output: the folder of its wheels; a wheel that is missing there is built again.
    """
    if selection is CellSelection.FAILED:
        return record is None or record.result is not Result.FAILED
    return (
        selection is CellSelection.UNFINISHED
        and record is not None
        and record.result is Result.DONE
        and record.key == key
        and all(holds(output, wheel.name, wheel.sha256) for wheel in record.wheels)
    )


def first_records(previous: Mapping[str, Record], started: Mapping[str, str], cells: Collection[str]) -> list[Record]:
    """Return the first records of a journal: cells that are built now are unfinished, the others are as they were.

    Args:
        previous: cell → its record of the last run.
        started: cell → key of those that are built now.
        cells: all cells of the recipe.
    """
    others = [record for name, record in previous.items() if name in cells and name not in started]
    memory = {name: record.memory for name, record in previous.items()}
    return [*others, *(Record(name, key, Result.CANCELED, memory.get(name, 0)) for name, key in started.items())]
