"""Finds where the bytes of two builds of a wheel differ: in the archive, its members, their sections and lines.

`wheel_audit.compare` shows differences for users of a wheel; this module explains why two files have different hashes.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO

from wheel_audit.binary import UnreadableBinary, to_row
from wheel_audit.elf import read_section_table
from wheel_audit.fatbin import SECTIONS as DEVICE_CODE
from wheel_audit.fatbin import DeviceImage, read_sections
from wheel_audit.limits import Budget, OverLimit, expansion_limit
from wheel_audit.plain_files import open_plain
from wheel_audit.text import first_lines
from wheel_audit.worker import LimitExceeded, call
from wheel_audit.zips import METHODS, ZIP_ERRORS, error_text, open_zip

LINES = 8
"""Limit of the lines, strings or images of one difference, for each side."""

_CHUNK = 1 << 20
_SPOOL = 32 << 20
_TEXT_LIMIT = 1 << 20
_STRINGS_LIMIT = 4 << 20
"""Bytes of each side that are searched for texts, all of them in memory."""

_STRING = re.compile(rb"[\x20-\x7e]{6,}")
_WIDEST = 160
_MOST = 2_000
"""Limit of reported differences: thousands of members can differ in their dates."""

_CAUSES = (
    (re.compile(r"tmpxft_[0-9a-f]{8}|__nv_cudaEntityRegister|_cu_[0-9a-f]{8}_\d+"), "names of nvcc's temporary files"),
    (re.compile(r"(?:^|[^\w])/(?:tmp|root|home|build|src|work|usr/src)/"), "a path of the build"),
    (
        re.compile(
            r"\b(?:[0-2]?\d:[0-5]\d:[0-5]\d|(?:19|20)\d\d-[01]\d-[0-3]\d|[A-Z][a-z]{2} [ \d]\d (?:19|20)\d\d)\b"
        ),
        "a time",
    ),
)
"""Known causes of differences, by a pattern of the bytes that differ."""


@dataclass(frozen=True, slots=True)
class _Range:
    """A part of a file."""

    file: IO[bytes]
    start: int
    size: int

    @classmethod
    def whole(cls, file: IO[bytes]) -> _Range:
        return cls(file, 0, file.seek(0, 2))

    def read(self, at: int, most: int) -> bytes:
        self.file.seek(self.start + at)
        return self.file.read(max(0, min(most, self.size - at)))

    def chunks(self) -> Iterator[bytes]:
        at = 0
        while chunk := self.read(at, _CHUNK):
            yield chunk
            at += len(chunk)

    def digest(self) -> bytes:
        value = hashlib.sha256()
        for chunk in self.chunks():
            value.update(chunk)
        return value.digest()


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between two wheels, with the content of both, line by line.

    ``file`` is the member's path, empty for the archive itself; ``part`` says what differs: ``order``, ``date``,
    ``section .text``, ``lines``, …. ``cause`` is empty if it is not known.
    """

    file: str
    part: str
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    cause: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the row of a machine report."""
        return to_row(self)


def differences(old: Path, new: Path) -> tuple[Difference, ...]:
    """Compare two wheels in a process with limits; empty exactly if bytes and names are the same.

    Raises OSError if a file cannot be opened, LimitExceeded for too much time or memory.
    """
    size = sum(path.stat().st_size for path in (old, new))
    try:
        return call(read_differences, old.absolute(), new.absolute(), size=size)
    except LimitExceeded as error:
        raise LimitExceeded(f"{old.name} and {new.name} cannot be compared: {error.message}") from error


def read_differences(old: Path, new: Path) -> tuple[Difference, ...]:
    """Do what `differences` does, in this process."""
    name = [Difference("", "file name", (old.name,), (new.name,))] if old.name != new.name else []
    with open_plain(old, follow=True) as first, open_plain(new, follow=True) as second:
        one, other = _Range.whole(first), _Range.whole(second)
        if one.digest() == other.digest():
            return tuple(name)
        result = [*name, *islice(_archives(one, other), _MOST + 1)]
        if len(result) > _MOST:
            result[_MOST:] = [Difference("", f"more than {_MOST} differences; the others are not shown")]
        if result == name:
            result.append(_bytes("", "layout of the archive", one, other))
    return tuple(result)


def _archives(first: _Range, second: _Range) -> Iterator[Difference]:
    first.file.seek(0)
    second.file.seek(0)
    try:
        with open_zip(first.file) as old, open_zip(second.file) as new:
            sizes = [sum(info.file_size for info in archive.infolist()) for archive in (old, new)]
            if sizes[0] > expansion_limit(first.size) or sizes[1] > expansion_limit(second.size):
                yield Difference("", "one of them unpacks to an absurd size; its content was not read")
                return
            yield from _members(old, new, Budget.of(first.size + second.size, sum(sizes)))
    except OverLimit as error:
        yield Difference("", f"one of them takes more work than its size allows: {error}")
    except ZIP_ERRORS as error:
        yield Difference("", f"one of them cannot be read as an archive: {error_text(error)}")


def _members(old: zipfile.ZipFile, new: zipfile.ZipFile, budget: Budget) -> Iterator[Difference]:
    before, after = ({info.filename: info for info in archive.infolist()} for archive in (old, new))
    for name in (name for name in before if name not in after):
        yield Difference(name, "the file itself", old=(f"{before[name].file_size} bytes",))
    for name in (name for name in after if name not in before):
        yield Difference(name, "the file itself", new=(f"{after[name].file_size} bytes",))
    common = [name for name in before if name in after]
    order = [name for name in after if name in before]
    if common != order:
        at = _first_difference(common, order)
        part = f"order of members, from number {at + 1} on"
        yield Difference("", part, tuple(common[at : at + LINES]), tuple(order[at : at + LINES]))
    if old.comment != new.comment:
        yield Difference("", "comment", _first([repr(old.comment)]), _first([repr(new.comment)]))
    for name in common:
        yield from _member(name, (old, before[name]), (new, after[name]), budget)


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (left, right) in pairs if left != right), min(len(one), len(other)))


def _member(
    name: str,
    old: tuple[zipfile.ZipFile, zipfile.ZipInfo],
    new: tuple[zipfile.ZipFile, zipfile.ZipInfo],
    budget: Budget,
) -> Iterator[Difference]:
    after = _header(new[1])
    for part, before in _header(old[1]).items():
        if before != after[part]:
            yield Difference(name, part, _first([before]), _first([after[part]]))
    if any(info.flag_bits & 1 or info.compress_type not in METHODS for _, info in (old, new)):
        yield Difference(name, "packed in a way that is not read here")
        return
    with _unpacked(*old) as first, _unpacked(*new) as second:
        if first.digest() != second.digest():
            yield from _content(name, first, second, budget)
        elif old[1].compress_size != new[1].compress_size and old[1].compress_type == new[1].compress_type:
            sizes = tuple(f"{info.compress_size} bytes" for _, info in (old, new))
            part = "compressed form of the same content"
            yield Difference(name, part, sizes[:1], sizes[1:], "another zlib, or another level")


def _header(info: zipfile.ZipInfo) -> dict[str, str]:
    mode, method = info.external_attr >> 16, info.compress_type
    made_by = f"system {info.create_system}, version {info.create_version}, needs {info.extract_version}"
    return {
        "date": "{:04}-{:02}-{:02} {:02}:{:02}:{:02}".format(*info.date_time),
        "mode": stat.filemode(mode) if mode else f"attributes {info.external_attr:#x}",
        "compression": {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}.get(method, f"method {method}"),
        "made by": f"{made_by}, flags {info.flag_bits:#x}",
        "extra field": info.extra.hex(" "),
    }


@contextmanager
def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[_Range]:
    """Unpack a member with bounded memory."""
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as copy, archive.open(info) as member:
        shutil.copyfileobj(member, copy, _CHUNK)
        yield _Range.whole(copy)


def _content(name: str, old: _Range, new: _Range, budget: Budget) -> Iterator[Difference]:
    if old.read(0, 4) == new.read(0, 4) == b"\x7fELF":
        try:
            yield from _sections(name, old, new, budget)
            return
        except UnreadableBinary as error:
            yield Difference(name, f"sections, which cannot be read: {error}")
    lines = _lines_of(old), _lines_of(new)
    if lines[0] is not None and lines[1] is not None:
        yield _lines(name, lines[0], lines[1])
    else:
        yield _bytes(name, "content", old, new)


def _lines_of(content: _Range) -> list[str] | None:
    """Return the lines of a short text; None for other content."""
    data = content.read(0, _TEXT_LIMIT + 1)
    if len(data) > _TEXT_LIMIT or b"\0" in data:
        return None
    try:
        return data.decode().splitlines()
    except UnicodeDecodeError:
        return None


def _lines(name: str, old: list[str], new: list[str]) -> Difference:
    gone, added = _only(old, new), _only(new, old)
    if gone or added:
        return _shown(name, "lines", gone, added)
    if old == new:
        return Difference(name, "line ends")
    # The same lines in another order.
    at = _first_difference(old, new)
    return _shown(name, "lines", old[at : at + LINES], new[at : at + LINES])


def _only(lines: list[str], others: list[str]) -> list[str]:
    """Return the lines that ``others`` does not have, or has less often."""
    surplus = Counter(lines) - Counter(others)
    result = []
    for line in reversed(lines):
        if surplus[line] > 0:
            surplus[line] -= 1
            result.append(line)
    return result[::-1]


def _sections(name: str, old: _Range, new: _Range, budget: Budget) -> Iterator[Difference]:
    """Compare two ELF files section by section."""
    before, after = read_section_table(old.file, budget), read_section_table(new.file, budget)
    same = True
    for key in dict.fromkeys([*before, *after]):
        section, number = key
        part = f"section {section or '(no name)'}" + (f" ({number + 1})" if number else "")
        if key not in before or key not in after:
            gone, added = ((f"{table[key][1]} bytes",) if key in table else () for table in (before, after))
            yield Difference(name, part, gone, added)
        else:
            one, other = _Range(old.file, *before[key]), _Range(new.file, *after[key])
            # Sections may overlap: all of them together are bounded.
            budget.take_data(
                max(0, min(one.size, old.size - one.start)) + max(0, min(other.size, new.size - other.start))
            )
            if one.digest() == other.digest():
                continue
            yield (_device_code if section in DEVICE_CODE else _section)(name, part, one, other, section, budget)
        same = False
    if same:
        yield _bytes(name, "headers and space between sections", old, new)


def _section(name: str, part: str, old: _Range, new: _Range, section: str, budget: Budget) -> Difference:
    gone, added = _strings(old, new, budget)
    return _shown(name, part, gone, added) if gone or added else _bytes(name, part, old, new)


def _device_code(name: str, part: str, old: _Range, new: _Range, section: str, budget: Budget) -> Difference:
    """Compare the programs in two fat binaries in their order."""
    before, after = (
        [
            (_image(number, image), _Range(code.file, image.offset, image.size).digest())
            for number, image in enumerate(read_sections(code.file, [(section, code.start, code.size)], budget).images)
        ]
        for code in (old, new)
    )
    pairs = list(zip_longest(before, after, fillvalue=("", b"")))
    gone = [one for (one, digest), (_, other_digest) in pairs if one and digest != other_digest]
    added = [other for (_, digest), (other, other_digest) in pairs if other and digest != other_digest]
    if not gone and not added:
        return _section(name, part, old, new, section, budget)
    cause = _cause([text for texts in _strings(old, new, budget) for text in texts])
    return Difference(name, part, _first(gone), _first(added), cause)


def _image(number: int, image: DeviceImage) -> str:
    what = {"elf": "machine code", "ptx": "PTX", "lto": "LTO-IR"}.get(image.kind, image.kind)
    return f"program {number + 1}: {what} for {image.arch}, {image.size} bytes"


def _strings(old: _Range, new: _Range, budget: Budget) -> tuple[list[str], list[str]]:
    """Return the texts that only one of two ranges has."""
    before, after = (_strings_of(content, budget) for content in (old, new))
    return [text for text in before if text not in after], [text for text in after if text not in before]


def _strings_of(content: _Range, budget: Budget) -> dict[str, None]:
    data = content.read(0, _STRINGS_LIMIT)
    budget.take_text(len(data))
    return dict.fromkeys(text.decode("ascii") for text in _STRING.findall(data))


def _shown(name: str, part: str, old: list[str], new: list[str]) -> Difference:
    return Difference(name, part, _first(old), _first(new), _cause([*old, *new]))


def _first(texts: list[str]) -> tuple[str, ...]:
    cut = [text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…" for text in texts]
    return tuple(first_lines(cut, LINES))


def _cause(texts: list[str]) -> str:
    return ", ".join(cause for pattern, cause in _CAUSES if any(pattern.search(text) for text in texts))


def _bytes(name: str, part: str, old: _Range, new: _Range) -> Difference:
    """Return the first bytes in which two ranges differ, as hexadecimal text."""
    at = 0
    for one, other in zip_longest(old.chunks(), new.chunks(), fillvalue=b""):
        if one != other:
            at += _first_difference(one, other)
            break
        at += len(one)
    old_text, new_text = (
        f"{content.size} bytes; at {at:#x}: {content.read(at, 16).hex(' ') or 'the end'}" for content in (old, new)
    )
    return Difference(name, part, (old_text,), (new_text,))
