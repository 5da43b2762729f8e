"""All facts about one wheel, read once. The checks evaluate them and read no files."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename

from wheel_audit.archive import Archive, path_defect, read_archive
from wheel_audit.binary import Binary
from wheel_audit.elf import SharedObject
from wheel_audit.macho import MachObject
from wheel_audit.metadata import Metadata, read_metadata
from wheel_audit.pe import PeImage
from wheel_audit.plain_files import file_sha256
from wheel_audit.systems import is_system_library
from wheel_audit.tags import PlatformTag, parse_platform, parse_release
from wheel_audit.tools import AuditwheelReport, ToolResults, run_auditwheel, run_tools
from wheel_audit.wheel_names import parse_wheel_name, split_label

ABI3_SUFFIX = ".abi3."
"""Part of the file name of a module for the stable ABI, before ``so``."""

_GRAFT_HASH = re.compile(r"-[0-9a-f]{8}(?:[0-9a-f]{24})?(?=\.)")
"""What auditwheel and delvewheel add to a library's name."""

_INSTALLED = re.compile(r"^[^/]+\.data/(?:platlib|purelib)/")


@dataclass(frozen=True, slots=True)
class WheelName:
    """A parsed file name: normalised project and version, build tag, all tags, sorted by text, and the variant's label.

    If ``defect`` says why the name is invalid, the other fields are empty.
    """

    name: str = ""
    version: str = ""
    build: str = ""
    tags: tuple[Tag, ...] = ()
    defect: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class WheelBinaries:
    """The machine code of a wheel, in archive order."""

    binaries: tuple[Binary, ...]

    @property
    def objects(self) -> tuple[SharedObject, ...]:
        """The ELF objects."""
        return tuple(binary for binary in self.binaries if isinstance(binary, SharedObject))

    @property
    def mach_objects(self) -> tuple[MachObject, ...]:
        """The Mach-O objects."""
        return tuple(binary for binary in self.binaries if isinstance(binary, MachObject))

    @property
    def images(self) -> tuple[PeImage, ...]:
        """The PE images."""
        return tuple(binary for binary in self.binaries if isinstance(binary, PeImage))

    @property
    def device_objects(self) -> tuple[SharedObject | PeImage, ...]:
        """The objects that may have device code and need CUDA's libraries: CUDA has no macOS any more."""
        return tuple(binary for binary in self.binaries if isinstance(binary, SharedObject | PeImage))

    @property
    def bundled(self) -> tuple[Binary, ...]:
        """The libraries that a repair tool copied into ``NAME.libs/`` or ``.dylibs/``."""
        return tuple(binary for binary in self.binaries if is_grafted(binary.path))

    @property
    def external(self) -> tuple[str, ...]:
        """The libraries that the wheel needs and does not contain, without those of macOS and Windows."""
        provided = {name.lower() for binary in self.binaries for name in (binary.soname, binary.file_name) if name}
        needed = {name for binary in self.objects for name in binary.needed}
        more = {name for binary in self.mach_objects for part in binary.slices for name in part.needed}
        more |= {name for binary in self.images for name in (*binary.imports, *binary.delayed)}
        needed |= {name for name in more if not is_system_library(name)}
        return tuple(sorted(name for name in needed if name.rpartition("/")[2].lower() not in provided))


@dataclass(frozen=True, slots=True)
class Wheel(WheelBinaries):
    """What was read from one file, and what other tools report about it. ``sha256`` is a hex digest."""

    path: Path
    sha256: str
    filename: WheelName
    archive: Archive
    metadata: Metadata = field(default_factory=Metadata)
    auditwheel: AuditwheelReport = field(default_factory=AuditwheelReport)
    results: ToolResults = field(default_factory=ToolResults)

    @property
    def native(self) -> tuple[Binary, ...]:
        """The machine code that Python loads: all except Windows programs, which any wheel may contain as data."""
        return tuple(
            binary for binary in self.binaries if not isinstance(binary, PeImage) or is_extension_or_dll(binary)
        )

    @property
    def platforms(self) -> tuple[PlatformTag, ...]:
        """The platform tags of the file name."""
        return tuple(parse_platform(text) for text in sorted({tag.platform for tag in self.filename.tags}))


def is_extension_or_dll(image: PeImage) -> bool:
    """Whether Python or another library loads this PE image."""
    return image.is_library and image.file_name.lower().endswith((".pyd", ".dll"))


def starts_module(binary: SharedObject) -> bool:
    """Whether Python can import this object; torch and ctypes load others, whatever Python their name is for."""
    return hash(f"PyInit_{binary.file_name.partition('.')[0]}") in binary.symbols.defined


def is_grafted(path: str) -> bool:
    """Whether ``path`` is in a folder of bundled libraries."""
    return any(part.endswith((".libs", ".dylibs")) for part in PurePosixPath(path).parts[:-1])


def installed_path(path: str) -> str:
    """Return where installers put a member, relative to the folder of packages."""
    return _INSTALLED.sub("", path)


def original_soname(file_name: str) -> str:
    """Return a bundled library's original name: ``libx-1a2b3c4d.so.1`` was ``libx.so.1``."""
    return _GRAFT_HASH.sub("", file_name, count=1)


def parse_name(file_name: str) -> WheelName:
    """Parse a wheel's file name; an invalid one has a ``defect``."""
    plain, label = split_label(file_name)
    try:
        name, version, build, tags = parse_wheel_name(plain)
    except InvalidWheelFilename as reason:
        return WheelName(defect=str(reason))
    return WheelName(name, str(version), "".join(map(str, build)), tuple(sorted(tags, key=str)), label=label)


def read_wheel(path: Path) -> Wheel:
    """Read the wheel at ``path``. Defects are recorded; only a file that cannot be opened raises (OSError)."""
    sha256 = file_sha256(path)
    archive = read_archive(path)
    metadata = read_metadata(tuple(entry.path for entry in archive.entries), archive.texts)
    wheel = Wheel(tuple(archive.binaries), path, sha256, parse_name(path.name), archive, metadata)
    with ThreadPoolExecutor() as pool:
        auditwheel, results = pool.submit(_run_auditwheel, wheel), pool.submit(_run_tools, wheel)
        return replace(wheel, auditwheel=auditwheel.result(), results=results.result())


def _run_auditwheel(wheel: Wheel) -> AuditwheelReport:
    if not (wheel.objects and any(tag.is_linux for tag in wheel.platforms)):
        return AuditwheelReport()
    if not _is_safe(wheel):
        return AuditwheelReport(skipped="the archive is not safe to unpack")
    with _plainly_named(wheel) as path:
        return run_auditwheel(path)


def _run_tools(wheel: Wheel) -> ToolResults:
    # Other checks report what makes a tool fail.
    if wheel.filename.defect or wheel.metadata.missing or wheel.metadata.record_defect or not _is_safe(wheel):
        return ToolResults()
    with _plainly_named(wheel) as path:
        return run_tools(path, stable_abi=_stable_abi(wheel), restructured=wheel.metadata.restructured)


@contextmanager
def _plainly_named(wheel: Wheel) -> Iterator[Path]:
    """Yield a path without the label of a variant, which the tools do not know yet."""
    if not wheel.filename.label:
        yield wheel.path
        return
    with tempfile.TemporaryDirectory(prefix="wheel-audit-") as folder:
        path = Path(folder, split_label(wheel.path.name)[0])
        path.symlink_to(wheel.path.absolute())
        yield path


def _is_safe(wheel: Wheel) -> bool:
    """Whether tools may read it: auditwheel unpacks the archive and opens every file that RECORD names."""
    listed = {row.path for row in wheel.metadata.record}
    return wheel.archive.is_safe and bool(wheel.metadata.folder) and not any(map(path_defect, listed))


def _stable_abi(wheel: Wheel) -> str:
    """Return the oldest Python that the stable-ABI modules support by the tags; empty without such modules."""
    tags = wheel.filename.tags
    tagged = any(tag.abi == "abi3" for tag in tags)
    if not wheel.binaries or not (tagged or any(ABI3_SUFFIX in binary.file_name for binary in wheel.binaries)):
        return ""
    matches = (re.fullmatch(r"(?:cp|py)(3)(\d+)", tag.interpreter) for tag in tags)
    return min((f"{match[1]}.{match[2]}" for match in matches if match), key=parse_release, default="3.2")
