"""The dist-info folder: METADATA, WHEEL and RECORD as written, valid or not."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesHeaderParser

from packaging.metadata import Metadata as Checked
from packaging.utils import canonicalize_version

from wheel_audit.limits import Budget, OverLimit

_HEAD = re.compile(rb"\r?\n\r?\n|\r\r")
"""The separator of the fields of METADATA and WHEEL and the description."""

_LARGEST_HEAD = 1 << 20
_LONGEST_LINE = 64 << 10
"""A licence text in a field has several lines."""

_MOST_LINES = 10_000
"""Limit of the lines of all fields: the projects with the most extras have some 1,500 requirements."""

_MOST_FIELDS = 500
"""Limit of different fields: the standard has some 35. For each of them, ``packaging`` reads all lines."""

_MOST_SPELLINGS = 10
"""Limit of the ways to write a name with small and capital letters: for each, ``packaging`` decodes all its values."""

_MOST_WORDS = 1000
"""Limit of encoded words (``=?utf-8?…``): for each, Python's parser may search the rest of the line."""

_LONGEST_TYPE = 1000
"""Limit of Description-Content-Type: the time of Python's parser grows with the square of the number of quotes."""

_Fields = Mapping[str, tuple[str, ...]]
"""Name in lower case → values."""

_NUMBERS = re.compile(r"[0-9]+")
_MOST_DIGITS = 1000
"""Limit of the digits of a number in a version. Python refuses more than 4,300."""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One line of RECORD, ``path,algorithm=digest,size``, not decoded."""

    path: str
    digest: str
    size: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """The fields of METADATA and WHEEL (empty if absent), and the rows of RECORD.

    ``folders`` are the top-level ``*.dist-info`` folders; a wheel has exactly one. ``missing`` are required files.
    ``restructured`` is the description, if it is reStructuredText or of an unknown type: its rendering can fail.
    ``defects`` says how METADATA breaks the rules for its fields, ``record_defect`` why RECORD cannot be read.
    ``fields`` has all fields of METADATA by their names in lower case; ``entry_points`` is None without the file.
    """

    folders: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    name: str = ""
    version: str = ""
    metadata_version: str = ""
    requires_python: str = ""
    requires_dist: tuple[str, ...] = ()
    restructured: str = ""
    defects: tuple[str, ...] = ()
    wheel_version: str = ""
    tags: tuple[str, ...] = ()
    build: str = ""
    root_is_purelib: str = ""
    record: tuple[RecordRow, ...] = ()
    record_defect: str = ""
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entry_points: bytes | None = None

    @property
    def folder(self) -> str:
        """The dist-info folder, or an empty string if there is not exactly one."""
        return self.folders[0] if len(self.folders) == 1 else ""


def check_work(text: bytes, budget: Budget) -> None:
    """Raise OverLimit for a METADATA or WHEEL file with so many lines or fields that parsing it takes too long."""
    budget.take_rows(text.count(b"\n") + text.count(b"\r"))
    end = _HEAD.search(text)
    head = text[: end.start()] if end else text
    if len(head) > _LARGEST_HEAD:
        raise OverLimit(f"the fields of METADATA have {len(head):,} bytes, more than {_LARGEST_HEAD:,}")
    lines = head.splitlines()
    if len(lines) > _MOST_LINES:
        raise OverLimit(f"the fields of METADATA have {len(lines):,} lines, more than {_MOST_LINES:,}")
    if max(map(len, lines), default=0) > _LONGEST_LINE:
        raise OverLimit(f"a line of METADATA has more than {_LONGEST_LINE:,} bytes")
    names = {line.partition(b":")[0] for line in lines if not line.startswith((b" ", b"\t"))}
    if len(names) > _MOST_FIELDS:
        raise OverLimit(f"METADATA has more than {_MOST_FIELDS} different fields")
    if max(Counter(name.lower() for name in names).values(), default=0) > _MOST_SPELLINGS:
        raise OverLimit(f"METADATA has a field whose name is spelled in more than {_MOST_SPELLINGS} ways")
    if head.count(b"=?") > _MOST_WORDS:
        raise OverLimit(f"METADATA has more than {_MOST_WORDS:,} encoded words")


def same_version(one: str, other: str) -> bool:
    """Return whether two versions are equal after normalisation."""
    try:
        return canonicalize_version(one) == canonicalize_version(other)
    except ValueError:  # a number with more digits than Python reads
        return one == other


def read_metadata(paths: tuple[str, ...], texts: Mapping[str, bytes]) -> Metadata:
    """Read the dist-info folder from the archive's ``paths`` and ``texts``; never raises."""
    folders = sorted({path.partition("/")[0] for path in paths if _in_dist_info(path)})
    if len(folders) != 1:
        return Metadata(folders=tuple(folders))
    paths_of_files = [f"{folders[0]}/{name}" for name in ("METADATA", "WHEEL", "RECORD")]
    message, tagged = (BytesHeaderParser().parsebytes(texts.get(path, b"")) for path in paths_of_files[:2])
    about, wheel = _fields(message), _fields(tagged)
    record, defect = _read_record(texts.get(paths_of_files[2], b""))
    return Metadata(
        folders=tuple(folders),
        missing=tuple(path for path in paths_of_files if path not in texts),
        name=_one(about, "name"),
        version=_one(about, "version"),
        metadata_version=_one(about, "metadata-version"),
        requires_python=_one(about, "requires-python"),
        requires_dist=about.get("requires-dist", ()),
        restructured=_restructured(about, str(message.get_payload())),
        defects=(*_defects(about, texts.get(paths_of_files[0], b"")), *_long_numbers(about)),
        wheel_version=_one(wheel, "wheel-version"),
        tags=wheel.get("tag", ()),
        build=_one(wheel, "build"),
        root_is_purelib=_one(wheel, "root-is-purelib").lower(),
        record=record,
        record_defect=defect,
        fields=about,
        entry_points=texts.get(f"{folders[0]}/entry_points.txt"),
    )


def _restructured(about: _Fields, body: str) -> str:
    kind = _one(about, "description-content-type").partition(";")[0].strip().lower()
    if kind in ("text/markdown", "text/plain"):
        return ""
    text = _one(about, "description") if "description" in about else body
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").strip()


def _defects(about: _Fields, content: bytes) -> tuple[str, ...]:
    """Return the errors in METADATA that ``packaging`` reports, which PyPI uses, too."""
    if any(len(kind) > _LONGEST_TYPE for kind in about.get("description-content-type", ())):
        return (f"Description-Content-Type has more than {_LONGEST_TYPE:,} characters",)
    try:
        Checked.from_email(content)
    except ExceptionGroup as group:
        reasons = (" ".join(str(reason).split()) for reason in group.exceptions)
        # setuptools wrote License-File years before a version had it: twine drops it, and indexes accept the wheel.
        return tuple(reason for reason in reasons if not reason.startswith("license-file introduced in"))
    except MemoryError:
        raise
    except Exception as reason:  # a hostile text can cause any error in the parser
        return (f"cannot be read ({type(reason).__name__})",)
    return ()


def _long_numbers(about: _Fields) -> tuple[str, ...]:
    """Return the fields with numbers that no installer reads, and that ``packaging`` does not check."""
    return tuple(
        f"{name} has a number with more than {_MOST_DIGITS:,} digits: {value[:60]}…"
        for name in ("Version", "Requires-Python", "Requires-Dist")
        for value in about.get(name.lower(), ())
        if max(map(len, _NUMBERS.findall(value)), default=0) > _MOST_DIGITS
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


def _fields(message: Message) -> _Fields:
    """Return lower-case name → values, in one walk: a header that is not ASCII is decoded whenever it is asked for."""
    fields: dict[str, list[str]] = {}
    for name, value in message.items():
        fields.setdefault(name.lower(), []).append(str(value).strip())
    return {name: tuple(values) for name, values in fields.items()}


def _one(fields: _Fields, name: str) -> str:
    return next(iter(fields.get(name, ())), "")
