"""Where two builds of one wheel are not the same bytes: the archive, its members, sections and lines of these.

`bakery.audit.compare` tells what a user of a wheel would meet as different; this tells why two files have two hashes.
"""

from __future__ import annotations

import hashlib
import re
import stat
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TypeAlias

from bakery.audit.binary import UnreadableBinary
from bakery.audit.elf import SectionRange, read_section_table
from bakery.audit.fatbin import SECTIONS as DEVICE_CODE
from bakery.audit.fatbin import DeviceImage, read_sections
from bakery.audit.limits import Budget, OverLimit, expansion_limit
from bakery.audit.worker import LimitExceeded, call
from bakery.audit.zips import METHODS, ZIP_ERRORS, error_text, open_zip
from bakery.core.errors import AuditError
from bakery.core.plain_files import open_plain

LINES = 8
"""Lines, strings or images that one difference shows of each side."""

_CHUNK = 1 << 20
_SPOOL = 32 << 20
_TEXT_LIMIT = 1 << 20
_STRINGS_LIMIT = 4 << 20
"""Bytes of each side in which texts are looked for: all of them are in memory at once."""

_STRING = re.compile(rb"[\x20-\x7e]{6,}")
_WIDEST = 160
_MOST = 2_000
"""Differences that are told: thousands of members can differ in their dates."""

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
"""What is known to make two builds differ, by what the differing bytes say."""

_Range: TypeAlias = tuple[IO[bytes], int, int]
"""A file, and where in it something begins, and its size."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two wheels differ.

    Attributes:
        file: the member's path; empty where it is about the archive itself.
        part: what of it: ``order``, ``date``, ``mode``, ``section .text``, ``lines``, ….
        old: what the first wheel has there, one item for each line; empty if it has nothing.
        new: what the second has.
        cause: why that may be; empty where it is not known.
    """

    file: str
    part: str
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    cause: str = ""

    def to_json(self) -> dict[str, object]:
        """Return its row of a machine report."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


def differences(old: Path, new: Path) -> tuple[Difference, ...]:
    """Return where two wheels differ; empty if, and only if, they are the same bytes under the same name.

    They are read in a process with limits.

    Raises:
        OSError: a file cannot be opened.
        AuditError: reading them takes more time or memory than it may.
    """
    size = sum(path.stat().st_size for path in (old, new))
    try:
        return call(read_differences, old.absolute(), new.absolute(), size=size)
    except LimitExceeded as error:
        raise AuditError(f"{old.name} and {new.name} cannot be compared: {error.message}") from error


def read_differences(old: Path, new: Path) -> tuple[Difference, ...]:
    """Do what `differences` does, in this process."""
    found: list[Difference] = []
    if old.name != new.name:
        found.append(Difference("", "file name", (old.name,), (new.name,)))
    with open_plain(old) as first, open_plain(new) as second:
        if _digest(first) == _digest(second):
            return tuple(found)
        for item in _archives(first, second):
            if len(found) == _MOST:
                found.append(Difference("", f"more than {_MOST} differences; the others are not shown"))
                break
            found.append(item)
        if not any(item.part != "file name" for item in found):
            found.append(_bytes("", "layout of the archive", _whole(first), _whole(second)))
    return tuple(found)


def _archives(first: IO[bytes], second: IO[bytes]) -> Iterator[Difference]:
    first.seek(0)
    second.seek(0)
    try:
        with open_zip(first) as old, open_zip(second) as new:
            sizes = [sum(info.file_size for info in archive.infolist()) for archive in (old, new)]
            if any(size > expansion_limit(_whole(file)[2]) for size, file in zip(sizes, (first, second), strict=True)):
                yield Difference("", "one of them unpacks to an absurd size; its content was not read")
                return
            yield from _members(old, new, Budget.of(_whole(first)[2] + _whole(second)[2], sum(sizes)))
    except OverLimit as error:
        yield Difference("", f"one of them takes more work than a wheel of its size may: {error}")
    except ZIP_ERRORS as error:
        yield Difference("", f"one of them cannot be read as an archive: {error_text(error)}")


def _members(old: zipfile.ZipFile, new: zipfile.ZipFile, budget: Budget) -> Iterator[Difference]:
    before, after = ({info.filename: info for info in archive.infolist()} for archive in (old, new))
    gone, added = ([name for name in ours if name not in theirs] for ours, theirs in ((before, after), (after, before)))
    yield from (Difference(name, "the file itself", old=(f"{before[name].file_size} bytes",)) for name in gone)
    yield from (Difference(name, "the file itself", new=(f"{after[name].file_size} bytes",)) for name in added)
    common = [name for name in before if name in after]
    order = [name for name in after if name in before]
    if common != order:
        at = next(number for number, (one, other) in enumerate(zip(common, order, strict=True)) if one != other)
        yield Difference(
            "",
            f"order of members, from number {at + 1} on",
            tuple(common[at : at + LINES]),
            tuple(order[at : at + LINES]),
        )
    if old.comment != new.comment:
        yield Difference("", "comment", _first([repr(old.comment)]), _first([repr(new.comment)]))
    for name in common:
        yield from _member(name, (old, before[name]), (new, after[name]), budget)


def _member(
    name: str,
    old: tuple[zipfile.ZipFile, zipfile.ZipInfo],
    new: tuple[zipfile.ZipFile, zipfile.ZipInfo],
    budget: Budget,
) -> Iterator[Difference]:
    for part, one, other in zip(_HEADERS, _header(old[1]), _header(new[1]), strict=True):
        if one != other:
            yield Difference(name, part, _first([one]), _first([other]))
    if any(info.flag_bits & 1 or info.compress_type not in METHODS for _, info in (old, new)):
        yield Difference(name, "packed in a way that is not read here")
        return
    with _unpacked(*old) as first, _unpacked(*new) as second:
        if _digest(first) != _digest(second):
            yield from _content(name, first, second, budget)
        elif old[1].compress_size != new[1].compress_size and old[1].compress_type == new[1].compress_type:
            sizes = tuple(f"{info.compress_size} bytes" for _, info in (old, new))
            yield Difference(
                name, "compressed form of the same content", sizes[:1], sizes[1:], "another zlib, or another level"
            )


_METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}
_HEADERS = ("date", "mode", "compression", "made by", "extra field")


def _header(info: zipfile.ZipInfo) -> tuple[str, ...]:
    """Return what an archive says of a member, in the order of `_HEADERS`."""
    day, hour = info.date_time[:3], info.date_time[3:]
    return (
        "{:04}-{:02}-{:02} ".format(*day) + "{:02}:{:02}:{:02}".format(*hour),
        stat.filemode(info.external_attr >> 16) if info.external_attr >> 16 else f"attributes {info.external_attr:#x}",
        _METHODS.get(info.compress_type, f"method {info.compress_type}"),
        f"system {info.create_system}, version {info.create_version}, needs {info.extract_version}, "
        f"flags {info.flag_bits:#x}",
        info.extra.hex(" "),
    )


@contextmanager
def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    """Give a member's content in memory that is bounded."""
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as copy, archive.open(info) as member:
        while chunk := member.read(_CHUNK):
            copy.write(chunk)
        yield copy


def _content(name: str, old: IO[bytes], new: IO[bytes], budget: Budget) -> Iterator[Difference]:
    heads = []
    for stream in (old, new):
        stream.seek(0)
        heads.append(stream.read(4))
    if all(head == b"\x7fELF" for head in heads):
        try:
            yield from _sections(name, old, new, budget)
            return
        except UnreadableBinary as error:
            yield Difference(name, f"sections, which cannot be told apart: {error}")
    texts = _text(old), _text(new)
    if texts[0] is not None and texts[1] is not None:
        yield _lines(name, texts[0], texts[1])
    else:
        yield _bytes(name, "content", _whole(old), _whole(new))


def _text(stream: IO[bytes]) -> list[str] | None:
    stream.seek(0)
    data = stream.read(_TEXT_LIMIT + 1)
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
        return Difference(name, "line ends", (), ())
    at = next(number for number, (one, other) in enumerate(zip(old, new, strict=True)) if one != other)
    # The same lines in another order.
    return _shown(name, "lines", old[at : at + LINES], new[at : at + LINES])


def _only(lines: list[str], others: list[str]) -> list[str]:
    """Return the lines that ``others`` lacks, or has less often."""
    left = Counter(others)
    left.subtract(lines)
    found = []
    for line in reversed(lines):
        if left[line] < 0:
            left[line] += 1
            found.append(line)
    return found[::-1]


def _sections(name: str, old: IO[bytes], new: IO[bytes], budget: Budget) -> Iterator[Difference]:
    """Compare two ELF files section by section."""
    tables = read_section_table(old, budget), read_section_table(new, budget)
    before, after = ({section.key: section for section in table} for table in tables)
    count = 0
    for key in dict.fromkeys([*before, *after]):
        one, other = before.get(key), after.get(key)
        title = f"section {key[0] or '(no name)'}" + (f" ({key[1] + 1})" if key[1] else "")
        if one is None or other is None:
            found = one or other
            size = (f"{found.size} bytes",) if found else ()
            yield Difference(name, title, size if one else (), size if other else ())
            count += 1
            continue
        # Sections may overlap: all of them together are bounded.
        budget.take_data(_stored(old, one) + _stored(new, other))
        if _digest(old, one.offset, one.size) == _digest(new, other.offset, other.size):
            continue
        if key[0] in DEVICE_CODE:
            places = (old, one.offset, one.size), (new, other.offset, other.size)
            yield _device_code(name, title, *places, key[0], budget)
        else:
            yield _section(name, title, (old, one.offset, one.size), (new, other.offset, other.size), budget)
        count += 1
    if not count:
        yield _bytes(name, "headers and space between sections", _whole(old), _whole(new))


def _stored(stream: IO[bytes], section: SectionRange) -> int:
    """Return how many bytes of a section the file really has."""
    return max(0, min(section.size, _whole(stream)[2] - section.offset))


def _section(name: str, title: str, old: _Range, new: _Range, budget: Budget) -> Difference:
    gone, added = _strings(old, new, budget)
    if gone or added:
        return _shown(name, title, gone, added)
    return _bytes(name, title, old, new)


def _device_code(name: str, title: str, old: _Range, new: _Range, section: str, budget: Budget) -> Difference:
    """Compare the programs in two fat binaries one by one."""
    codes = [read_sections(stream, [(section, start, size)], budget) for stream, start, size in (old, new)]
    images = [[*code.images] for code in codes]
    gone, added = (
        [_image(number, image) for number, image in enumerate(images[own]) if _differs(number, images, old[0], new[0])]
        for own in (0, 1)
    )
    if not gone and not added:
        return _section(name, title, old, new, budget)
    cause = _cause([text for texts in _strings(old, new, budget) for text in texts])
    return Difference(name, title, _first(gone), _first(added), cause)


def _differs(number: int, images: list[list[DeviceImage]], old: IO[bytes], new: IO[bytes]) -> bool:
    if number >= min(map(len, images)):
        return True
    one, other = images[0][number], images[1][number]
    return _digest(old, one.offset, one.size) != _digest(new, other.offset, other.size)


def _image(number: int, image: DeviceImage) -> str:
    what = {"elf": "machine code", "ptx": "PTX", "lto": "LTO-IR"}.get(image.kind, image.kind)
    return f"program {number + 1}: {what} for {image.arch}, {image.size} bytes"


def _strings(old: _Range, new: _Range, budget: Budget) -> tuple[list[str], list[str]]:
    """Return the texts that only one of two ranges has, if both are small enough to look."""
    sets = []
    for stream, start, size in (old, new):
        stream.seek(start)
        data = stream.read(min(size, _STRINGS_LIMIT))
        budget.take_text(len(data))
        sets.append(dict.fromkeys(text.decode("ascii") for text in _STRING.findall(data)))
    return [text for text in sets[0] if text not in sets[1]], [text for text in sets[1] if text not in sets[0]]


def _shown(name: str, part: str, old: list[str], new: list[str]) -> Difference:
    return Difference(name, part, _first(old), _first(new), _cause([*old, *new]))


def _first(texts: list[str]) -> tuple[str, ...]:
    cut = [text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…" for text in texts[:LINES]]
    return (*cut, *([f"and {len(texts) - LINES} more"] if texts[LINES:] else []))


def _cause(texts: Iterable[str]) -> str:
    said = list(texts)
    return ", ".join(cause for pattern, cause in _CAUSES if any(pattern.search(text) for text in said))


def _bytes(name: str, part: str, old: _Range, new: _Range) -> Difference:
    """Return the first bytes in which two ranges differ, as hexadecimal text."""
    at = 0
    while True:
        one, other = (_chunk(place, at) for place in (old, new))
        if one != other or not one:
            break
        at += len(one)
    pairs = enumerate(zip(one, other, strict=False))
    inside = next((number for number, (left, right) in pairs if left != right), min(len(one), len(other)))
    shown = (
        f"{size} bytes; at {at + inside:#x}: {chunk[inside : inside + 16].hex(' ') or 'the end'}"
        for chunk, (_, _, size) in ((one, old), (other, new))
    )
    return Difference(name, part, (next(shown),), (next(shown),))


def _chunk(place: _Range, at: int) -> bytes:
    stream, start, size = place
    stream.seek(start + at)
    return stream.read(max(0, min(_CHUNK, size - at)))


def _whole(stream: IO[bytes]) -> _Range:
    return stream, 0, stream.seek(0, 2)


def _digest(stream: IO[bytes], start: int = 0, size: int = -1) -> bytes:
    """Return the hash of a range of a file; of all of it for size -1."""
    value = hashlib.sha256()
    stream.seek(start)
    left = size
    while left and (chunk := stream.read(_CHUNK if left < 0 else min(_CHUNK, left))):
        value.update(chunk)
        left -= len(chunk) if left > 0 else 0
    return value.digest()
