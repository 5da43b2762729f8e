"""The journal of a run: the result of each cell, one line each. Later runs resume from the newest record of each cell.

Each run of a recipe has its own file, ``journal/<recipe>/<number>.jsonl``, and only appends to it. A file that was cut
at any byte is a valid journal. What counts is the newest record of a cell in all kept journals: two runs may build
different cells, also at the same time. The files are in the project's state folder, because bakery trusts them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path

from bakery.core.errors import reported
from bakery.core.file_locks import locked_folder
from bakery.core.files import write_file
from wheel_audit.plain_files import read_plain
from wheel_audit.readers import json_of

VERSION = 1
"""Version of the records; records of other versions are ignored."""

INPUTS = ".inputs"
"""Suffix of the file beside a journal with the inputs of its cells (`cell_inputs`)."""

UNKNOWN = "unknown"
"""A repository of which nobody knows whether the build asked it."""

MAX_JOURNALS = 5
MAX_CARRIED = 5000
LONGEST_STEP_S = 1e7
MAX_JOURNAL_BYTES = 1024**3


class Result(StrEnum):
    """The result of a target."""

    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"
    KEPT = "kept"
    """An earlier run finished it, and its inputs did not change."""


@dataclass(frozen=True, slots=True)
class RecordedWheel:
    """A wheel that passed its audit; ``size`` in bytes, ``provenance`` and ``sbom``: sha256 of its records, empty for none."""

    name: str
    sha256: str
    size: int
    provenance: str = ""
    sbom: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """The result of a cell.

    Attributes:
        key: digest of the cell's inputs.
        memory: peak memory of its steps in MB; 0 if unknown.
        wheels: those that the cell tested, or built only; they are published after this record is written.
        times: what its steps do → seconds, as they took when they last ran.
        images: base image, with its platform → digest, as the build of its wheel used it.
        time: when it was written, in seconds since 1970; 0 before that.
        repository: digest of the repository (`Selection.repository`) that its build asked; empty if it asked nothing.
    """

    cell: str
    key: str
    result: Result
    memory: int = 0
    wheels: tuple[RecordedWheel, ...] = field(default=())
    times: Mapping[str, float] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)
    time: float = field(default=0.0, compare=False)
    repository: str = UNKNOWN


class Journal:
    """The journal of one run; made by `open_journal`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, record: Record) -> None:
        """Append a record and sync it to the disk. Raises OutputError if it cannot be written."""
        with reported(f"cannot write the journal {self.path}"):
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _PLAIN, 0o600)
            with os.fdopen(handle, "ab") as file:
                file.write(_line(record))
                file.flush()
                os.fsync(handle)


_PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags that refuse links, and do not wait for pipes."""


def _line(record: Record) -> bytes:
    return (
        json.dumps({"version": VERSION, **asdict(record), "time": record.time or time.time()}).encode("ascii") + b"\n"
    )


def open_journal(
    state: Path, recipe: str, started: Iterable[Record] = (), keeps: Callable[[Record], bool] = lambda _: True
) -> Journal:
    """Create the journal of a new run. Raises OutputError if it cannot be written.

    It has the records of the cells that the run ``started`` and, of all others in the kept journals, the newest ones that
    ``keeps`` accepts, since the oldest journal is removed. A run may know few of the cells (``--shard``, ``--since``), so
    those of cells that are in no plan any more go when there are too many.
    """
    folder = state / "journal" / recipe
    with reported(f"cannot write {folder}"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_folder(folder):
            old = journals(state, recipe)
            journal = Journal(folder / f"{int(old[-1].stem) + 1 if old else 1:06}.jsonl")
            others = sorted(filter(keeps, _newest(map(read_journal, old)).values()), key=lambda record: record.time)
            records = {record.cell: record for record in (*others[-MAX_CARRIED:], *started)}
            # All at once: cells whose records are missing would be built again.
            write_file(journal.path, b"".join(map(_line, records.values())))
            for path in old[: max(0, len(old) + 1 - MAX_JOURNALS)]:
                path.unlink(missing_ok=True)
                path.with_suffix(INPUTS).unlink(missing_ok=True)
    return journal


def newest_records(state: Path, recipe: str) -> dict[str, Record]:
    """Return the newest record of each cell of a recipe in the kept journals; empty for no run. Raises OutputError."""
    return _newest(kept_records(state, recipe).values())


def _newest(journals: Iterable[Mapping[str, Record]]) -> dict[str, Record]:
    """Return the newest record of each cell; of records with one time, that in the last journal."""
    now = time.time() + 1
    every = (record for records in journals for record in records.values())
    # Clocks jump: a time in the future counts as the oldest.
    by_time = sorted(every, key=lambda record: record.time if record.time <= now else 0.0)
    return {record.cell: record for record in by_time}


def kept_records(state: Path, recipe: str) -> dict[Path, dict[str, Record]]:
    """Return journal → its records by cell, for the kept runs of a recipe, the oldest first. Raises OutputError."""
    folder = state / "journal" / recipe
    with reported(f"cannot read {folder}"):
        if not folder.is_dir():
            return {}
        # Another run may remove the oldest one.
        with locked_folder(folder):
            return {path: read_journal(path) for path in journals(state, recipe)}


def journals(state: Path, recipe: str) -> list[Path]:
    """Return the journals of a recipe's kept runs, the oldest first."""
    paths = (state / "journal" / recipe).glob("*.jsonl")
    return sorted((path for path in paths if path.stem.isdecimal()), key=lambda path: int(path.stem))


def read_journal(path: Path) -> dict[str, Record]:
    """Return the last record of each cell in a journal. Raises OSError."""
    return read(read_plain(path, MAX_JOURNAL_BYTES))


def read(data: bytes) -> dict[str, Record]:
    """Return the last record of each cell; lines that are no records, such as a cut line, are ignored."""
    records = (_record(line) for line in data.split(b"\n"))
    return {record.cell: record for record in records if record}


def _record(line: bytes) -> Record | None:
    try:
        document = json_of(line)
        if document.pop("version") != VERSION:
            return None
        wheels = tuple(RecordedWheel(**wheel) for wheel in document.pop("wheels"))
        record = Record(**{**document, "result": Result(document["result"])}, wheels=wheels)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return (
        record
        if _has_types(record, (str, str, Result, int, tuple, dict, dict, float, str))
        and all(isinstance(seconds, float) and 0 <= seconds < LONGEST_STEP_S for seconds in record.times.values())
        and all(_has_types(wheel, (str, str, int, str, str)) for wheel in wheels)
        else None
    )


def _has_types(item: Record | RecordedWheel, types: Sequence[type]) -> bool:
    """Return whether the fields have these types: a journal may be damaged."""
    return all(isinstance(getattr(item, field.name), kind) for field, kind in zip(fields(item), types, strict=True))
