"""All facts about one wheel, read once; the checks judge them and read nothing themselves."""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename

from bakery.audit.archive import Archive, path_defect, read_archive
from bakery.audit.binary import Binary
from bakery.audit.elf import SharedObject
from bakery.audit.macho import MachObject
from bakery.audit.metadata import Metadata, read_metadata
from bakery.audit.pe import PeImage
from bakery.audit.systems import is_system_library
from bakery.audit.tags import PlatformTag, parse_platform, parse_release
from bakery.audit.tools import AuditwheelReport, ToolResults, run_auditwheel, run_tools
from bakery.core.files import open_plain
from bakery.core.wheel_names import parse_wheel_name

ABI3_SUFFIX = ".abi3."
"""What the file name of a module for the stable ABI has before its ``so``."""

_GRAFT_HASH = re.compile(r"-[0-9a-f]{8}(?:[0-9a-f]{24})?(?=\.)")
"""What auditwheel and delvewheel add to a library's name."""


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
        auditwheel: the report of auditwheel.
        results: the results of the other tools.
    """

    path: Path
    sha256: str
    filename: WheelName
    archive: Archive
    metadata: Metadata
    auditwheel: AuditwheelReport
    results: ToolResults

    @property
    def objects(self) -> tuple[SharedObject, ...]:
        """The ELF objects in the wheel."""
        return tuple(binary for binary in self.archive.binaries if isinstance(binary, SharedObject))

    @property
    def mach_objects(self) -> tuple[MachObject, ...]:
        """The Mach-O objects in the wheel."""
        return tuple(binary for binary in self.archive.binaries if isinstance(binary, MachObject))

    @property
    def images(self) -> tuple[PeImage, ...]:
        """The PE images in the wheel."""
        return tuple(binary for binary in self.archive.binaries if isinstance(binary, PeImage))

    @property
    def native(self) -> tuple[Binary, ...]:
        """The machine code that Python loads: all but programs of Windows, which any wheel may carry as data."""
        return tuple(
            binary for binary in self.archive.binaries if not isinstance(binary, PeImage) or is_extension_or_dll(binary)
        )

    @property
    def platforms(self) -> tuple[PlatformTag, ...]:
        """The platform tags of the file name."""
        return _platforms(self.filename)

    @property
    def bundled(self) -> tuple[Binary, ...]:
        """The libraries that a repair grafted into ``NAME.libs/`` or ``.dylibs/``."""
        return tuple(binary for binary in self.archive.binaries if is_grafted(binary.path))

    @property
    def external(self) -> tuple[str, ...]:
        """The libraries that something in the wheel needs and nothing in it provides; on macOS and Windows without
        those of the system."""
        provided = {
            name.lower() for binary in self.archive.binaries for name in (binary.soname, binary.file_name) if name
        }
        needed = {name for binary in self.objects for name in binary.needed}
        more = {name for binary in self.mach_objects for part in binary.slices for name in part.needed}
        more |= {name for binary in self.images for name in (*binary.imports, *binary.delayed)}
        needed |= {name for name in more if not is_system_library(name)}
        return tuple(sorted(name for name in needed if name.rpartition("/")[2].lower() not in provided))


def is_extension_or_dll(image: PeImage) -> bool:
    """Whether Python or another library would load an image of Windows."""
    return image.is_library and image.file_name.lower().endswith((".pyd", ".dll"))


def is_grafted(path: str) -> bool:
    """Whether ``path`` lies in a folder of grafted libraries."""
    return any(part.endswith((".libs", ".dylibs")) for part in PurePosixPath(path).parts[:-1])


def original_soname(file_name: str) -> str:
    """Return a grafted library's name as it was: ``libx-1a2b3c4d.so.1`` came from ``libx.so.1``."""
    return _GRAFT_HASH.sub("", file_name, count=1)


def parse_name(file_name: str) -> WheelName:
    """Take a wheel's file name apart; never fails."""
    try:
        name, version, build, tags = parse_wheel_name(file_name)
    except InvalidWheelFilename as reason:
        return WheelName(defect=str(reason))
    return WheelName(name, str(version), "".join(map(str, build)), tuple(sorted(tags, key=str)))


def read_wheel(path: Path) -> Wheel:
    """Read the wheel at ``path``; whatever is wrong with it is recorded, not raised.

    Raises:
        OSError: the file cannot be opened.
    """
    with open_plain(path) as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    archive = read_archive(path)
    metadata = read_metadata(tuple(entry.path for entry in archive.entries), archive.texts)
    filename = parse_name(path.name)
    with ThreadPoolExecutor() as pool:
        auditwheel = pool.submit(_run_auditwheel, path, filename, archive, metadata)
        results = pool.submit(_run_tools, path, filename, archive, metadata)
        return Wheel(path, sha256, filename, archive, metadata, auditwheel.result(), results.result())


def _run_auditwheel(path: Path, filename: WheelName, archive: Archive, metadata: Metadata) -> AuditwheelReport:
    if not (
        any(isinstance(binary, SharedObject) for binary in archive.binaries)
        and any(tag.is_linux for tag in _platforms(filename))
    ):
        return AuditwheelReport()
    if not _is_safe(archive, metadata):
        return AuditwheelReport(skipped="the archive is not safe to unpack")
    return run_auditwheel(path)


def _run_tools(path: Path, filename: WheelName, archive: Archive, metadata: Metadata) -> ToolResults:
    # What makes a tool fail is reported by other checks.
    if filename.defect or metadata.missing or metadata.record_defect or not _is_safe(archive, metadata):
        return ToolResults()
    return run_tools(path, stable_abi=_stable_abi(filename, archive), restructured=metadata.restructured)


def _is_safe(archive: Archive, metadata: Metadata) -> bool:
    """Whether tools may see it: auditwheel unpacks the archive and opens whatever RECORD names."""
    listed = {row.path for row in metadata.record}
    return archive.is_safe and bool(metadata.folder) and not any(map(path_defect, listed))


def _stable_abi(filename: WheelName, archive: Archive) -> str:
    """Return the oldest Python that the modules for the stable ABI are for, by the tags; empty without such modules."""
    tagged = any(tag.abi == "abi3" for tag in filename.tags)
    if not archive.binaries or not (tagged or any(ABI3_SUFFIX in binary.file_name for binary in archive.binaries)):
        return ""
    matches = (re.fullmatch(r"(?:cp|py)(3)(\d+)", tag.interpreter) for tag in filename.tags)
    return min((f"{match[1]}.{match[2]}" for match in matches if match), key=parse_release, default="3.2")


def _platforms(filename: WheelName) -> tuple[PlatformTag, ...]:
    return tuple(parse_platform(text) for text in sorted({tag.platform for tag in filename.tags}))
