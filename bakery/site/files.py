"""What an index says of one wheel."""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

LARGEST_METADATA = 16 << 20
"""Bytes that a wheel's METADATA may have."""

_METADATA = re.compile(r"[^/]+\.dist-info/METADATA\Z")


@dataclass(frozen=True, slots=True)
class File:
    """A wheel as the pages tell of it.

    Attributes:
        name: the file's name.
        project: the project's normalised name.
        version: the version, local part included.
        sha256: hex digest of the wheel.
        size: bytes of the wheel.
        requires_python: METADATA's Requires-Python; empty where there is none.
        metadata_sha256: hex digest of METADATA.
        uploaded: when the index got it, as ``2026-11-21T17:00:00.000000Z``.
        yanked: why nobody should take it any more (PEP 592), True for no reason given, False for nothing of that.
    """

    name: str
    project: str
    version: str
    sha256: str
    size: int
    requires_python: str
    metadata_sha256: str
    uploaded: str
    yanked: str | bool = False


class NotAWheel(ValueError):
    """Why a file cannot stand in an index."""


def read(path: Path, uploaded: str) -> tuple[File, str]:
    """Return what an index says of the wheel at ``path``, and its METADATA.

    Raises:
        NotAWheel: it is none, or its name and its METADATA disagree.
        OSError: it cannot be read.
    """
    try:
        project, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise NotAWheel(str(error)) from None
    if path.is_symlink() or not path.is_file():
        raise NotAWheel("not a plain file")
    metadata = _metadata(path)
    try:
        text = metadata.decode()
    except UnicodeDecodeError:
        raise NotAWheel("METADATA is not UTF-8") from None
    header = HeaderParser().parsestr(text)
    said = str(header.get("Name", "")), str(header.get("Version", ""))
    if canonicalize_name(said[0]) != project or _version(said[1]) != version:
        raise NotAWheel(f"METADATA says {said[0]} {said[1]}, its name {project} {version}")
    requires = str(header.get("Requires-Python", ""))
    try:
        SpecifierSet(requires)
    except InvalidSpecifier:
        raise NotAWheel(f"METADATA has an invalid Requires-Python: {requires[:80]!r}") from None
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        size = stream.tell()
    own = hashlib.sha256(metadata).hexdigest()
    return File(path.name, project, str(version), digest, size, requires, own, uploaded), text


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _metadata(path: Path) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive:
            found = [info for info in archive.infolist() if _METADATA.match(info.filename)]
            if len(found) != 1:
                raise NotAWheel("it has no METADATA" if not found else "it has more than one METADATA")
            if found[0].file_size > LARGEST_METADATA:
                raise NotAWheel(f"METADATA has more than {LARGEST_METADATA} bytes")
            damaged = archive.testzip()
            if damaged:
                raise NotAWheel(f"{damaged} in it is damaged")
            return archive.read(found[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OverflowError) as error:
        raise NotAWheel(f"it is no readable archive: {error}") from None
