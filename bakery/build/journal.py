"""What became of each cell, written line by line while a run goes: the state that a later run goes on from.

Each run of a recipe has a file of its own, ``journal/<recipe>/<number>.jsonl``, which is only ever appended to. Cut at
any byte it is still a journal: of what happened before. Numbers, not times, say which run was the last one. They lie in
the project's state folder (`bakery.build.state_folder`), never in the project: what they say is believed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bakery.build.buildx.outcome import Result
from bakery.core.errors import OutputError
from bakery.core.file_locks import locked_folder
from bakery.core.plain_files import read_plain

VERSION = 1
"""Version of the records; those of another one are as good as none."""

KEPT = 5
"""Journals that are kept of each recipe."""

LARGEST = 1024**3
"""Bytes of a journal that are read."""


@dataclass(frozen=True, slots=True)
class RecordedWheel:
    """A wheel that passed its audit, by name and content; ``size`` in bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Record:
    """What became of a cell.

    Attributes:
        key: digest of all that defines it; another key is another cell.
        memory: MB that its steps needed at their peak; 0 where nobody knows.
        wheels: what passed the audit; publishing follows, so the output folder has the last word.
    """

    cell: str
    key: str
    result: Result
    memory: int = 0
    wheels: tuple[RecordedWheel, ...] = field(default=())


class Journal:
    """The journal of one run; made by `open_journal`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, record: Record) -> None:
        """Add a record; it lasts through a power cut once this returns.

        Raises:
            OutputError: it cannot be written.
        """
        line = json.dumps({"version": VERSION, **asdict(record)}, ensure_ascii=True) + "\n"
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _PLAIN, 0o600)
            try:
                _write(handle, line.encode("ascii"))
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise OutputError(f"cannot write the journal {self.path}: {error.strerror or error}") from error


_PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How a file is opened that a link or a pipe shall not stand for."""


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def open_journal(state: Path, recipe: str, carried: Iterable[Record] = ()) -> Journal:
    """Begin the journal of a new run, which from now on is the last one of its recipe.

    Args:
        state: the state folder of the project.
        carried: what holds on from the run before it.

    Raises:
        OutputError: it cannot be made.
    """
    folder = state / "journal" / recipe
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_folder(folder):
            old = _journals(folder)
            journal = Journal(folder / f"{int(old[-1].stem) + 1 if old else 1:06}.jsonl")
            # All at once: a journal that lacks some of what it carries would have these cells built again.
            text = "".join(json.dumps({"version": VERSION, **asdict(record)}) + "\n" for record in carried)
            temporary = journal.path.with_suffix(".tmp")
            temporary.write_text(text, encoding="ascii")
            temporary.replace(journal.path)
            for path in old[: max(0, len(old) + 1 - KEPT)]:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
    return journal


def last_run(state: Path, recipe: str) -> dict[str, Record]:
    """Return what the last run of a recipe knows of its cells; nothing where there was none.

    Args:
        state: the state folder of the project.

    Raises:
        OutputError: the journal cannot be read.
    """
    folder = state / "journal" / recipe
    try:
        journals = _journals(folder) if folder.is_dir() else []
        return read(read_plain(journals[-1], LARGEST, follow=False)) if journals else {}
    except OSError as error:
        raise OutputError(f"cannot read {folder}: {error.strerror or error}") from error


def _journals(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob("*.jsonl") if path.stem.isdecimal()), key=lambda path: int(path.stem))


def read(data: bytes) -> dict[str, Record]:
    """Return the last record of each cell; what is no record, as a line that was cut, is left out."""
    records = (_record(line) for line in data.split(b"\n"))
    return {record.cell: record for record in records if record}


def _record(line: bytes) -> Record | None:
    try:
        document: object = json.loads(line)
        if not isinstance(document, Mapping) or document.get("version") != VERSION:
            return None
        wheels = tuple(
            RecordedWheel(str(item["name"]), str(item["sha256"]), int(item["size"])) for item in document["wheels"]
        )
        return Record(
            cell=str(document["cell"]),
            key=str(document["key"]),
            result=Result(document["result"]),
            memory=int(document["memory"]),
            wheels=wheels,
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
