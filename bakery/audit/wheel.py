"""All facts about one wheel, read once; the checks judge them and read nothing themselves."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from bakery.audit.archive import Archive, path_defect, read_archive
from bakery.audit.elf import SharedObject
from bakery.audit.metadata import Metadata, read_metadata
from bakery.audit.tags import PlatformTag, parse_platform
from bakery.audit.verdict import Verdict, ask_auditwheel

_GRAFT_HASH = re.compile(r"-[0-9a-f]{8}(?=\.so|\.)")


@dataclass(frozen=True, slots=True)
class WheelName:
    """A wheel's file name taken apart.

    Attributes:
        name: the project, normalised.
        version: normalised text, local part included.
        build: the build tag; empty if there is none.
        tags: every (python, abi, platform) it claims, sorted by text.
        defect: why the name is no wheel name; the rest is empty then.
    """

    name: str = ""
    version: str = ""
    build: str = ""
    tags: tuple[Tag, ...] = ()
    defect: str = ""


@dataclass(frozen=True, slots=True)
class Wheel:
    """What was read from one file.

    Attributes:
        path: the file.
        sha256: hex digest of the file.
        filename: its name taken apart.
        archive: its members.
        metadata: its dist-info folder.
        verdict: auditwheel's.
    """

    path: Path
    sha256: str
    filename: WheelName
    archive: Archive
    metadata: Metadata
    verdict: Verdict

    @property
    def objects(self) -> tuple[SharedObject, ...]:
        """The ELF objects in the wheel."""
        return self.archive.objects

    @property
    def platforms(self) -> tuple[PlatformTag, ...]:
        """The platform tags of the file name."""
        return _platforms(self.filename)

    @property
    def bundled(self) -> tuple[SharedObject, ...]:
        """The libraries that auditwheel grafted into ``NAME.libs/``."""
        return tuple(found for found in self.objects if is_grafted(found.path))

    @property
    def external(self) -> tuple[str, ...]:
        """The sonames that something in the wheel needs and nothing in it provides."""
        provided = {name for found in self.objects for name in (found.soname, found.file_name)}
        return tuple(sorted({name for found in self.objects for name in found.needed} - provided))


def is_grafted(path: str) -> bool:
    """Whether ``path`` lies in a folder of grafted libraries."""
    return any(part.endswith(".libs") for part in PurePosixPath(path).parts[:-1])


def original_soname(file_name: str) -> str:
    """Return a grafted library's name as it was: ``libx-1a2b3c4d.so.1`` came from ``libx.so.1``."""
    return _GRAFT_HASH.sub("", file_name, count=1)


def parse_name(file_name: str) -> WheelName:
    """Take a wheel's file name apart; never fails."""
    try:
        name, version, build, tags = parse_wheel_filename(file_name)
    except InvalidWheelFilename as reason:
        return WheelName(defect=str(reason))
    return WheelName(name, str(version), "".join(map(str, build)), tuple(sorted(tags, key=str)))


def read_wheel(path: Path) -> Wheel:
    """Read the wheel at ``path``; whatever is wrong with it is recorded, not raised.

    Raises:
        OSError: the file cannot be opened.
    """
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    archive = read_archive(path)
    metadata = read_metadata(tuple(entry.path for entry in archive.entries), archive.texts)
    filename = parse_name(path.name)
    return Wheel(path, sha256, filename, archive, metadata, _verdict(path, filename, archive, metadata))


def _verdict(path: Path, filename: WheelName, archive: Archive, metadata: Metadata) -> Verdict:
    if not (archive.objects and any(tag.is_linux for tag in _platforms(filename))):
        return Verdict()
    # auditwheel unpacks the archive and opens whatever RECORD names.
    listed = {row.path for row in metadata.record}
    if not archive.is_safe or not metadata.folder or any(map(path_defect, listed)):
        return Verdict(skipped="the archive is not safe to unpack")
    return ask_auditwheel(path)


def _platforms(filename: WheelName) -> tuple[PlatformTag, ...]:
    return tuple(parse_platform(text) for text in sorted({tag.platform for tag in filename.tags}))
