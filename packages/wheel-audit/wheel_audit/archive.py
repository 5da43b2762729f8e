"""The zip file: every member is read once, in bounded memory, and nothing is unpacked.

A wheel is untrusted until it is audited: this module records what it finds, and the checks evaluate it.
"""

from __future__ import annotations

import hashlib
import stat
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from wheel_audit.binary import Binary, UnreadableBinary
from wheel_audit.elf import read_elf
from wheel_audit.limits import Budget, OverLimit, expansion_limit
from wheel_audit.macho import MAGICS, read_macho
from wheel_audit.metadata import check_work
from wheel_audit.pe import read_pe
from wheel_audit.plain_files import open_plain
from wheel_audit.zips import METHODS, ZIP_ERRORS, error_text, layout_defect, open_zip

_CHUNK = 1 << 20
_SPOOL = 32 << 20
_HEAD = 48
"""Bytes: the first line of a pointer of Git LFS has 42."""
TEXT_LIMIT = 4 << 20
"""Limit of a dist-info file, in bytes; descriptions have at most some 100,000. For RECORD, add the size of the wheel:
it has a hash of every file, which does not compress."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of the archive, with its path exactly as stored.

    ``size`` is as declared (zipfile never yields more), ``mode`` is the Unix ``st_mode`` or 0. ``sha256`` is the hex
    digest of the content, empty for folders and unreadable members, which have a ``defect``; ``digests`` has those of
    all algorithms that RECORD uses. ``kind`` is ``elf``, ``mach-o``, ``pe`` or empty, by the first bytes; ``head`` has
    these of a file without a kind.
    """

    path: str
    size: int
    mode: int
    method: int
    encrypted: bool
    sha256: str = ""
    kind: str = ""
    defect: str = ""
    head: bytes = b""
    digests: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def is_dir(self) -> bool:
        """Whether this is a folder."""
        return self.path.endswith("/")

    @property
    def is_special(self) -> bool:
        """Whether this is a link, device, pipe or socket."""
        return stat.S_IFMT(self.mode) not in (0, stat.S_IFREG, stat.S_IFDIR)


@dataclass(slots=True)
class Archive:
    """Everything that was read from the zip file, in archive order; duplicate entries are included.

    ``texts`` has path → content of the dist-info files that the audit reads. ``binaries`` are those that a loader would
    load; ``unreadable_objects`` has path → why one cannot be parsed. ``defect`` says why the file is not a zip archive,
    ``layout`` what is in it beside its members, ``excess`` which limit was exceeded, so that the rest was not read.
    ``size`` is that of the archive.
    """

    entries: list[Entry] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)
    binaries: list[Binary] = field(default_factory=list)
    unreadable_objects: dict[str, str] = field(default_factory=dict)
    defect: str = ""
    layout: str = ""
    excess: str = ""
    size: int = 0

    @property
    def is_read(self) -> bool:
        """Whether the whole archive was read; if not, nothing is known about missing members."""
        return not (self.defect or self.excess or self.is_bomb)

    @property
    def unpacked_size(self) -> int:
        """The sum of all unpacked sizes."""
        return sum(entry.size for entry in self.entries)

    @property
    def is_bomb(self) -> bool:
        """Whether it unpacks to an absurd size; then no content was read."""
        return self.unpacked_size > expansion_limit(self.size)

    @property
    def is_safe(self) -> bool:
        """Whether any tool can safely unpack it into an empty folder."""
        paths = [entry.path for entry in self.entries]
        return (
            self.is_read
            and not self.unreadable_objects
            and len(set(paths)) == len(paths)
            and not any(entry.defect or entry.is_special or path_defect(entry.path) for entry in self.entries)
        )


def path_defect(path: str) -> str:
    """Return why ``path`` is not a plain relative path, or an empty string."""
    if not path or not path.isprintable():
        return "empty or with control characters"
    if path.startswith("/") or "\\" in path or ":" in path.split("/", 1)[0]:
        return "absolute, or with a drive or backslash"
    if any(part in ("", ".", "..") for part in path.removesuffix("/").split("/")):
        return "with '.', '..' or an empty part"
    return ""


def read_archive(path: Path) -> Archive:
    """Read the wheel at ``path``. Defects are recorded; only a file that cannot be opened raises (OSError)."""
    with open_plain(path, follow=True) as stream:
        archive = Archive(size=stream.seek(0, 2))
        try:
            with open_zip(stream) as zipped:
                archive.layout = layout_defect(stream, zipped)
                _read_members(archive, zipped)
        except OverLimit as reason:
            archive.excess = str(reason)
        except ZIP_ERRORS as reason:
            return Archive(defect=error_text(reason), size=archive.size)
        return archive


def _read_members(archive: Archive, zipped: zipfile.ZipFile) -> None:
    """Read all members into ``archive``. OverLimit is raised after a part was read."""
    infos = zipped.infolist()
    unpacked = sum(info.file_size for info in infos)
    if unpacked > expansion_limit(archive.size):
        archive.entries += map(_entry, infos)
        return
    budget = Budget.of(archive.size, unpacked)
    algorithms = ("sha256", *_more_algorithms(archive, zipped, infos))
    for info in infos:
        if info.filename.endswith("/") or info.flag_bits & 1 or info.compress_type not in METHODS:
            archive.entries.append(_entry(info))
            continue
        try:
            _read_member(archive, zipped, info, algorithms, budget)
        except UnreadableBinary as reason:
            archive.unreadable_objects[info.orig_filename] = str(reason)
        except ZIP_ERRORS as reason:
            archive.entries.append(_entry(info, defect=error_text(reason)))


def _more_algorithms(archive: Archive, zipped: zipfile.ZipFile, infos: Sequence[zipfile.ZipInfo]) -> list[str]:
    """Return the algorithms that RECORD has beside sha256, of those that the standard permits and tools write."""
    for info in infos:
        name = info.orig_filename
        if not (_is_dist_info_file(name) and name.endswith("/RECORD")):
            continue
        try:
            is_plain = info.compress_type in METHODS and info.file_size <= _limit(archive, name)
            text = zipped.read(info) if is_plain else b""
        except ZIP_ERRORS:
            text = b""
        return [algorithm for algorithm in ("sha384", "sha512") if f",{algorithm}=".encode() in text]
    return []


def _limit(archive: Archive, name: str) -> int:
    return TEXT_LIMIT + (archive.size if name.endswith("/RECORD") else 0)


def _read_member(
    archive: Archive, zipped: zipfile.ZipFile, info: zipfile.ZipInfo, algorithms: Sequence[str], budget: Budget
) -> None:
    name = info.orig_filename
    is_text, limit = _is_dist_info_file(name), _limit(archive, name)
    if is_text and info.file_size > limit:
        raise OverLimit(f"{name} has {info.file_size:,} bytes, more than {limit:,}")
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as copy:
        digests, kind, head = _read_content(zipped, info, algorithms, copy)
        archive.entries.append(_entry(info, digests=digests, kind=kind, head=b"" if kind else head))
        copy.seek(0)
        if is_text:
            text = copy.read()
            if not name.endswith(("/METADATA", "/WHEEL")):
                budget.take_rows(text.count(b"\n") + text.count(b"\r"))
            else:
                check_work(text, budget)
            archive.texts[name] = text
        elif kind and (binary := _READERS[kind](name, copy, budget)):
            archive.binaries.append(binary)


def _read_content(
    zipped: zipfile.ZipFile, info: zipfile.ZipInfo, algorithms: Sequence[str], copy: IO[bytes]
) -> tuple[dict[str, str], str, bytes]:
    """Read one member to its end; return its digests, kind and first bytes. If it is parsed later, write it to ``copy``."""
    digests = {name: hashlib.new(name) for name in algorithms}
    with zipped.open(info) as member:
        chunk = head = member.read(_CHUNK)
        kind = _kind(head)
        is_parsed = bool(kind) or _is_dist_info_file(info.orig_filename)
        while chunk:
            for digest in digests.values():
                digest.update(chunk)
            if is_parsed:
                copy.write(chunk)
            chunk = member.read(_CHUNK)
    return {name: digest.hexdigest() for name, digest in digests.items()}, kind, head[:_HEAD]


def _kind(head: bytes) -> str:
    if head.startswith(b"\x7fELF"):
        return "elf"
    # Java classes have the magic of universal binaries, but not their small number of machines.
    if head.startswith(MAGICS) and (head[:2] != b"\xca\xfe" or int.from_bytes(head[4:8], "big") < 40):
        return "mach-o"
    start = int.from_bytes(head[60:64], "little")
    return "pe" if head.startswith(b"MZ") and head[start : start + 4] == b"PE\0\0" else ""


_READERS: dict[str, Callable[[str, IO[bytes], Budget], Binary | None]] = {
    "elf": read_elf,
    "mach-o": read_macho,
    "pe": read_pe,
}


def _is_dist_info_file(path: str) -> bool:
    folder, _, name = path.partition("/")
    return folder.endswith(".dist-info") and name in _DIST_INFO


_DIST_INFO = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "variant.json")


def _entry(
    info: zipfile.ZipInfo,
    *,
    digests: Mapping[str, str] | None = None,
    kind: str = "",
    defect: str = "",
    head: bytes = b"",
) -> Entry:
    mode, encrypted = info.external_attr >> 16, bool(info.flag_bits & 1)
    digests = digests or {}
    sha256 = digests.get("sha256", "")
    name, size, method = info.orig_filename, info.file_size, info.compress_type
    return Entry(name, size, mode, method, encrypted, sha256, kind, defect, head, digests)
