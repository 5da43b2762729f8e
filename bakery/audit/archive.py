"""The zip file: every member read once, in bounded memory, and nothing written where it says.

A wheel is hostile data until it is audited, so this module records what it meets and judges nothing:
the checks do that, from the same facts.
"""

from __future__ import annotations

import hashlib
import stat
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bakery.audit.binary import Binary, UnreadableBinary
from bakery.audit.elf import read_elf
from bakery.audit.limits import Budget, OverLimit, expansion_limit
from bakery.audit.macho import MAGICS, read_macho
from bakery.audit.metadata import check_work
from bakery.audit.pe import read_pe
from bakery.audit.zips import METHODS, ZIP_ERRORS, error_text, open_zip
from bakery.core.files import open_plain

_CHUNK = 1 << 20
_SPOOL = 32 << 20
TEXT_LIMIT = 4 << 20
"""Bytes that a file of the dist-info folder may have; descriptions have some hundred thousand at most. RECORD may have as
many more as the wheel itself: it holds a hash of every file, which compresses no further."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of the archive.

    Attributes:
        path: the name exactly as stored.
        size: bytes when unpacked, as declared (zipfile never yields more).
        mode: Unix ``st_mode``; 0 where the archive was made without one.
        method: the zip compression method.
        encrypted: whether a password is needed.
        sha256: hex digest of the content; empty for folders and for what could not be read.
        kind: ``elf``, ``mach-o``, ``pe`` or empty, by its first bytes.
        defect: why the content could not be read; empty if it could.
    """

    path: str
    size: int
    mode: int
    method: int
    encrypted: bool
    sha256: str = ""
    kind: str = ""
    defect: str = ""

    @property
    def is_dir(self) -> bool:
        """Whether this is a folder."""
        return self.path.endswith("/")

    @property
    def is_special(self) -> bool:
        """Whether this is a link, device, pipe or socket rather than a file or folder."""
        return stat.S_IFMT(self.mode) not in (0, stat.S_IFREG, stat.S_IFDIR)


@dataclass(slots=True)
class Archive:
    """Everything that was read from the zip file.

    Attributes:
        entries: all members in archive order, duplicates included.
        texts: content of the top-level dist-info files that the audit reads, by path.
        binaries: the machine code that a loader would load: ELF, Mach-O and PE files, in archive order.
        unreadable_objects: those that cannot be parsed: path to reason.
        defect: why the file is no zip archive; empty if it is one.
        excess: the limit that reading it exceeds; then it was not read to its end.
        size: of the archive itself, in bytes.
    """

    entries: list[Entry] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)
    binaries: list[Binary] = field(default_factory=list)
    unreadable_objects: dict[str, str] = field(default_factory=dict)
    defect: str = ""
    excess: str = ""
    size: int = 0

    @property
    def is_read(self) -> bool:
        """Whether all of it was read; else it says nothing of what it lacks."""
        return not (self.defect or self.excess or self.is_bomb)

    @property
    def unpacked_size(self) -> int:
        """Bytes that unpacking would take."""
        return sum(entry.size for entry in self.entries)

    @property
    def is_bomb(self) -> bool:
        """Whether the content is out of all proportion; none of it was read then."""
        return self.unpacked_size > expansion_limit(self.size)

    @property
    def is_safe(self) -> bool:
        """Whether a naive tool may unpack it into an empty folder."""
        paths = [entry.path for entry in self.entries]
        return (
            self.is_read
            and not self.unreadable_objects
            and len(set(paths)) == len(paths)
            and not any(entry.defect or entry.is_special or path_defect(entry.path) for entry in self.entries)
        )


def path_defect(path: str) -> str:
    """Return why ``path`` is no plain relative path, or an empty string."""
    if not path or not path.isprintable():
        return "empty or with control characters"
    if path.startswith("/") or "\\" in path or ":" in path.split("/", 1)[0]:
        return "absolute, or with a drive or backslash"
    if any(part in ("", ".", "..") for part in path.removesuffix("/").split("/")):
        return "with '.', '..' or an empty part"
    return ""


def read_archive(path: Path) -> Archive:
    """Read the wheel at ``path``; what is wrong with it is recorded, not raised.

    Raises:
        OSError: the file cannot be opened at all.
    """
    with open_plain(path) as stream:
        archive = Archive(size=stream.seek(0, 2))
        try:
            with open_zip(stream) as zipped:
                _read_members(archive, zipped)
        except OverLimit as reason:
            archive.excess = str(reason)
        except ZIP_ERRORS as reason:
            return Archive(defect=error_text(reason), size=archive.size)
        return archive


def _read_members(archive: Archive, zipped: zipfile.ZipFile) -> None:
    """Read all members into ``archive``, which has what was read also if a limit ends the reading.

    Raises:
        OverLimit: they take more than a wheel of its size may take.
    """
    infos = zipped.infolist()
    unpacked = sum(info.file_size for info in infos)
    if unpacked > expansion_limit(archive.size):
        archive.entries += map(_entry, infos)
        return
    budget = Budget.of(archive.size, unpacked)
    for info in infos:
        if info.filename.endswith("/") or info.flag_bits & 1 or info.compress_type not in METHODS:
            archive.entries.append(_entry(info))
            continue
        try:
            _read_member(archive, zipped, info, budget)
        except UnreadableBinary as reason:
            archive.unreadable_objects[info.orig_filename] = str(reason)
        except ZIP_ERRORS as reason:
            archive.entries.append(_entry(info, defect=error_text(reason)))


def _read_member(archive: Archive, zipped: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> None:
    name = info.orig_filename
    is_text, is_record = _is_dist_info_file(name), name.endswith("/RECORD")
    most = TEXT_LIMIT + (archive.size if is_record else 0)
    if is_text and info.file_size > most:
        raise OverLimit(f"{name} has {info.file_size:,} bytes, more than {most:,}")
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as copy:
        digest, kind = _drain(zipped, info, copy)
        archive.entries.append(_entry(info, sha256=digest, kind=kind))
        copy.seek(0)
        if is_text:
            text = copy.read()
            if is_record:
                budget.take_rows(text.count(b"\n") + text.count(b"\r"))
            else:
                check_work(text, budget)
            archive.texts[name] = text
        elif kind and (binary := _READERS[kind](name, info.file_size, copy, budget)):
            archive.binaries.append(binary)


def _drain(zipped: zipfile.ZipFile, info: zipfile.ZipInfo, copy: IO[bytes]) -> tuple[str, str]:
    """Read one member to its end; return its sha256 and kind, and keep in ``copy`` what is parsed later."""
    digest = hashlib.sha256()
    with zipped.open(info) as member:
        chunk = head = member.read(_CHUNK)
        kind = _kind(head)
        keep = bool(kind) or _is_dist_info_file(info.orig_filename)
        while chunk:
            digest.update(chunk)
            if keep:
                copy.write(chunk)
            chunk = member.read(_CHUNK)
    return digest.hexdigest(), kind


def _kind(head: bytes) -> str:
    if head.startswith(b"\x7fELF"):
        return "elf"
    # Java's classes share the magic of universal binaries, but not the small count of machines.
    if head.startswith(MAGICS) and (head[:2] != b"\xca\xfe" or int.from_bytes(head[4:8], "big") < 40):
        return "mach-o"
    start = int.from_bytes(head[60:64], "little")
    return "pe" if head.startswith(b"MZ") and head[start : start + 4] == b"PE\0\0" else ""


_READERS: dict[str, Callable[[str, int, IO[bytes], Budget], Binary | None]] = {
    "elf": read_elf,
    "mach-o": read_macho,
    "pe": read_pe,
}


def _is_dist_info_file(path: str) -> bool:
    folder, _, name = path.partition("/")
    return folder.endswith(".dist-info") and name in ("METADATA", "WHEEL", "RECORD")


def _entry(info: zipfile.ZipInfo, *, sha256: str = "", kind: str = "", defect: str = "") -> Entry:
    mode, encrypted = info.external_attr >> 16, bool(info.flag_bits & 1)
    return Entry(info.orig_filename, info.file_size, mode, info.compress_type, encrypted, sha256, kind, defect)
