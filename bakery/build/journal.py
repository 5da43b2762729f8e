"""The journal of a run: the result of each cell, one line each. A later run resumes from it.

Each run of a recipe has its own file, ``journal/<recipe>/<number>.jsonl``, and only appends to it. A file that was cut
at any byte is a valid journal. The highest number is the last run. The files are in the project's state folder, because
bakery trusts them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from bakery.build.result import Result
from bakery.core.errors import OutputError
from bakery.core.file_locks import locked_folder
from bakery.core.files import read_plain

VERSION = 1
"""Version of the records; records of other versions are ignored."""

INPUTS = ".inputs"
"""Suffix of the file beside a journal with the inputs of its cells (`cell_inputs`)."""

MAX_JOURNALS = 5
LONGEST_STEP_S = 1e7
MAX_JOURNAL_BYTES = 1024**3


@dataclass(frozen=True, slots=True)
class RecordedWheel:
    """A wheel that passed its audit; ``size`` in bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Record:
    """The result of a cell.

    Attributes:
        key: digest of the cell's inputs.
        memory: peak memory of its steps in MB; 0 if unknown.
        wheels: those that passed the audit; they are published after this record is written.
        wheel_of: the cell whose wheel this one takes without ``wheel.abi3``; empty for its own.
        times: what its steps do → seconds, as they took when they last ran.
        images: base image, with its platform → digest, as the build of its wheel used it.
    """

    cell: str
    key: str
    result: Result
    memory: int = 0
    wheels: tuple[RecordedWheel, ...] = field(default=())
    wheel_of: str = ""
    times: Mapping[str, float] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)


class Journal:
    """The journal of one run; made by `open_journal`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, record: Record) -> None:
        """Append a record and sync it to the disk. Raises OutputError if it cannot be written."""
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _PLAIN, 0o600)
            with os.fdopen(handle, "ab") as file:
                file.write(_line(record))
                file.flush()
                os.fsync(handle)
        except OSError as error:
            raise OutputError(f"cannot write the journal {self.path}: {error.strerror or error}") from error


_PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags that refuse links, and do not wait for pipes."""


def _line(record: Record) -> bytes:
    return json.dumps({"version": VERSION, **asdict(record)}).encode("ascii") + b"\n"


def open_journal(state: Path, recipe: str, first_records: Iterable[Record] = ()) -> Journal:
    """Create the journal of a new run, with some records. Raises OutputError if it cannot be written."""
    folder = state / "journal" / recipe
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_folder(folder):
            old = _journals(folder)
            journal = Journal(folder / f"{int(old[-1].stem) + 1 if old else 1:06}.jsonl")
            # All at once: cells whose records are missing would be built again.
            temporary = journal.path.with_suffix(".tmp")
            temporary.write_bytes(b"".join(map(_line, first_records)))
            temporary.replace(journal.path)
            for path in old[: max(0, len(old) + 1 - MAX_JOURNALS)]:
                path.unlink(missing_ok=True)
                path.with_suffix(INPUTS).unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
    return journal


def last_run(state: Path, recipe: str) -> dict[str, Record]:
    """Return the records of a recipe's last run by cell; empty for no run. Raises OutputError."""
    folder = state / "journal" / recipe
    try:
        journals = _journals(folder) if folder.is_dir() else []
        return read(read_plain(journals[-1], MAX_JOURNAL_BYTES, follow=False)) if journals else {}
    except OSError as error:
        raise OutputError(f"cannot read {folder}: {error.strerror or error}") from error


def kept_records(state: Path, recipe: str) -> dict[Path, dict[str, Record]]:
    """Return journal → its records by cell, for the kept runs of a recipe, the oldest first. Raises OutputError."""
    try:
        return {path: read(read_plain(path, MAX_JOURNAL_BYTES, follow=False)) for path in journals(state, recipe)}
    except OSError as error:
        raise OutputError(f"cannot read the journals of {recipe}: {error.strerror or error}") from error


def _journals(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob("*.jsonl") if path.stem.isdecimal()), key=lambda path: int(path.stem))


def journals(state: Path, recipe: str) -> list[Path]:
    """Return the journals of a recipe's kept runs, the oldest first."""
    folder = state / "journal" / recipe
    return _journals(folder) if folder.is_dir() else []


def read(data: bytes) -> dict[str, Record]:
    """Return the last record of each cell; lines that are no records, such as a cut line, are ignored."""
    records = (_record(line) for line in data.split(b"\n"))
    return {record.cell: record for record in records if record}


def _record(line: bytes) -> Record | None:
    try:
        document = json.loads(line)
        if document.pop("version") != VERSION:
            return None
        wheels = tuple(RecordedWheel(**wheel) for wheel in document.pop("wheels"))
        record = Record(**{**document, "result": Result(document["result"])}, wheels=wheels)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return (
        record
        if _has_types(record, (str, str, Result, int, tuple, str, dict, dict))
        and all(isinstance(seconds, float) and 0 <= seconds < LONGEST_STEP_S for seconds in record.times.values())
        and all(_has_types(wheel, (str, str, int)) for wheel in wheels)
        else None
    )


def _has_types(item: Record | RecordedWheel, types: Sequence[type]) -> bool:
    """Return whether the fields have these types: a journal may be damaged."""
    return all(isinstance(getattr(item, field.name), kind) for field, kind in zip(fields(item), types, strict=True))
