"""The entry of an index for one wheel."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import IO

from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name

from wheel_audit import variant as variants
from wheel_audit.archive import TEXT_LIMIT
from wheel_audit.limits import Budget, OverLimit, expansion_limit
from wheel_audit.metadata import check_work, same_version
from wheel_audit.plain_files import open_plain, sha256_of
from wheel_audit.variant import Variant
from wheel_audit.wheel_names import parse_wheel_name, split_label
from wheel_audit.zips import ZIP_ERRORS, error_text, layout_defect, open_zip

_METADATA = re.compile(r"[^/]+\.dist-info/METADATA\Z")
_VARIANT = re.compile(r"[^/]+\.dist-info/variant\.json\Z")


@dataclass(frozen=True, slots=True)
class File:
    """A wheel as it is listed on the pages, with its normalised project.

    ``requires_python`` is METADATA's, or empty; ``uploaded`` is a time such as ``2026-11-21T17:00:00.000000Z``;
    ``yanked`` is the reason (PEP 592), or True without one; ``provenance`` is the address of its attestations, or empty.
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
    provenance: str = ""


class NotAWheel(ValueError):
    """Why a file cannot be in an index."""


def read(path: Path, uploaded: str) -> tuple[File, str]:
    """Return the entry of an index for the wheel at ``path``, and its METADATA.

    Raises NotAWheel, also if name and METADATA disagree, and OSError.
    """
    try:
        project, version, _, _ = parse_wheel_name(split_label(path.name)[0])
    except InvalidWheelFilename as error:
        raise NotAWheel(str(error)) from None
    if path.is_symlink() or not path.is_file():
        raise NotAWheel("not a regular file")
    with open_plain(path) as stream:
        digest = sha256_of(stream)
        size = stream.tell()
        try:
            metadata = _metadata(stream, size)
        except OverLimit as error:
            raise NotAWheel(f"reading it takes more work than its size allows: {error}") from None
    try:
        text = metadata.decode()
    except UnicodeDecodeError:
        raise NotAWheel("METADATA is not UTF-8") from None
    header = HeaderParser().parsestr(text)
    name, stated, requires = (str(header.get(field, "")) for field in ("Name", "Version", "Requires-Python"))
    if canonicalize_name(name) != project or not same_version(stated, str(version)):
        raise NotAWheel(f"METADATA says {name[:80]} {stated[:80]}, its name {project} {version}")
    try:
        SpecifierSet(requires)
    except ValueError:
        raise NotAWheel(f"METADATA has an invalid Requires-Python: {requires[:80]!r}") from None
    metadata_digest = hashlib.sha256(metadata).hexdigest()
    return File(path.name, project, str(version), digest, size, requires, metadata_digest, uploaded), text


def read_variant(path: Path) -> Variant:
    """Return what a wheel variant says about its label. Raises NotAWheel, also if it has no label, and OSError."""
    try:
        with open_plain(path) as stream, open_zip(stream) as archive:
            infos = [info for info in archive.infolist() if _VARIANT.match(info.filename)]
            if len(infos) != 1 or infos[0].file_size > TEXT_LIMIT:
                raise NotAWheel("it has a label, and not exactly one variant.json of a sensible size")
            variant = variants.read(archive.read(infos[0]))
    except variants.BadVariant as error:
        raise NotAWheel(f"variant.json {error}") from None
    except (NotAWheel, OverLimit):
        raise
    except ZIP_ERRORS as error:
        raise NotAWheel(f"it is not a readable archive: {error_text(error)}") from None
    if variant.label != split_label(path.name)[1]:
        raise NotAWheel(f"variant.json says {variant.label!r:.100}, its name {split_label(path.name)[1]!r:.100}")
    return variant


def _metadata(stream: IO[bytes], size: int) -> bytes:
    try:
        with open_zip(stream) as archive:
            if defect := layout_defect(stream, archive):
                raise NotAWheel(f"pip and uv may read different files of it: {defect}")
            infos = archive.infolist()
            members = [info for info in infos if _METADATA.match(info.filename)]
            if len(members) != 1:
                raise NotAWheel("it has more than one METADATA" if members else "it has no METADATA")
            if members[0].file_size > TEXT_LIMIT:
                raise NotAWheel(f"METADATA has more than {TEXT_LIMIT:,} bytes")
            if sum(info.file_size for info in infos) > expansion_limit(size):
                raise NotAWheel(f"it unpacks to more than {expansion_limit(size):,} bytes")
            if damaged := archive.testzip():
                raise NotAWheel(f"{damaged} in it is damaged")
            metadata = archive.read(members[0])
            check_work(metadata, Budget.of(size))
            return metadata
    except NotAWheel:
        raise
    except ZIP_ERRORS as error:
        raise NotAWheel(f"it is not a readable archive: {error_text(error)}") from None
