"""The dist-info folder: METADATA, WHEEL and RECORD as they are written, right or wrong."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesHeaderParser


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One line of RECORD: ``path,algorithm=digest,size``, nothing decoded."""

    path: str
    digest: str
    size: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the dist-info folder says.

    Attributes:
        folders: the top-level ``*.dist-info`` folders; a wheel has exactly one.
        missing: the required files it lacks.
        name: METADATA's Name; empty if absent, as are the other texts.
        version: METADATA's Version.
        requires_python: METADATA's Requires-Python.
        requires_dist: METADATA's Requires-Dist lines.
        tags: WHEEL's Tag lines.
        build: WHEEL's Build.
        root_is_purelib: WHEEL's Root-Is-Purelib, lower case.
        record: RECORD's rows.
        record_defect: why RECORD cannot be read; empty if it can.
    """

    folders: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    name: str = ""
    version: str = ""
    requires_python: str = ""
    requires_dist: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    build: str = ""
    root_is_purelib: str = ""
    record: tuple[RecordRow, ...] = ()
    record_defect: str = ""

    @property
    def folder(self) -> str:
        """The dist-info folder, or an empty string where there is not exactly one."""
        return self.folders[0] if len(self.folders) == 1 else ""


def read_metadata(paths: tuple[str, ...], texts: Mapping[str, bytes]) -> Metadata:
    """Read the dist-info folder from the archive's ``paths`` and the kept ``texts``; never fails."""
    folders = sorted({path.partition("/")[0] for path in paths if _in_dist_info(path)})
    if len(folders) != 1:
        return Metadata(folders=tuple(folders))
    wanted = [f"{folders[0]}/{name}" for name in ("METADATA", "WHEEL", "RECORD")]
    about, wheel = (BytesHeaderParser().parsebytes(texts.get(path, b"")) for path in wanted[:2])
    record, defect = _read_record(texts.get(wanted[2], b""))
    return Metadata(
        folders=tuple(folders),
        missing=tuple(path for path in wanted if path not in texts),
        name=_one(about, "Name"),
        version=_one(about, "Version"),
        requires_python=_one(about, "Requires-Python"),
        requires_dist=_all(about, "Requires-Dist"),
        tags=_all(wheel, "Tag"),
        build=_one(wheel, "Build"),
        root_is_purelib=_one(wheel, "Root-Is-Purelib").lower(),
        record=record,
        record_defect=defect,
    )


def _in_dist_info(path: str) -> bool:
    folder, slash, _ = path.partition("/")
    return bool(slash) and folder.endswith(".dist-info")


def _read_record(content: bytes) -> tuple[tuple[RecordRow, ...], str]:
    rows: list[RecordRow] = []
    try:
        for number, row in enumerate(csv.reader(io.StringIO(content.decode(), newline="")), 1):
            if len(row) != 3:
                return tuple(rows), f"line {number} has {len(row)} fields instead of 3"
            rows.append(RecordRow(*row))
    except (UnicodeDecodeError, csv.Error) as reason:
        return tuple(rows), str(reason)
    return tuple(rows), ""


def _all(message: Message, header: str) -> tuple[str, ...]:
    return tuple(str(value).strip() for value in message.get_all(header, []))


def _one(message: Message, header: str) -> str:
    return next(iter(_all(message, header)), "")
