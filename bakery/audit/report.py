"""The report on one wheel: facts for tables and machines, and the findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bakery.audit.binary import Binary, to_row
from bakery.audit.elf import SharedObject
from bakery.audit.finding import Finding, Severity
from bakery.audit.macho import MachObject
from bakery.audit.pe import PeImage
from bakery.audit.wheel import Wheel

JSON_VERSION = 1
"""Raised when a key of the JSON report is removed or changes its meaning; new keys do not count."""


@dataclass(frozen=True, slots=True)
class WheelReport:
    """What one wheel is, and what is wrong with it.

    Attributes:
        path: the file.
        sha256: hex digest of the file.
        size: in bytes.
        name: the project by the file name, normalised; empty (as version) where it cannot be parsed.
        version: by the file name.
        build: the build tag; empty if there is none.
        pythons: the python tags of the file name.
        abis: the ABI tags.
        platforms: the platform tags.
        requires_python: METADATA's specifier; empty if there is none.
        requires_dist: METADATA's requirements.
        objects: every ELF shared object and program.
        mach_objects: every Mach-O module, library and program.
        images: every PE module, library and program.
        bundled: those among all of them that a repair grafted in.
        external: libraries that the wheel expects from its surroundings.
        other_binaries: Mach-O and PE files: path to kind, damaged ones too.
        platform_tag: the oldest tag that auditwheel says it fulfils; None where it was not asked.
        findings: worst first.
    """

    path: Path
    sha256: str
    size: int
    name: str
    version: str
    build: str
    pythons: tuple[str, ...]
    abis: tuple[str, ...]
    platforms: tuple[str, ...]
    requires_python: str
    requires_dist: tuple[str, ...]
    objects: tuple[SharedObject, ...]
    mach_objects: tuple[MachObject, ...]
    images: tuple[PeImage, ...]
    bundled: tuple[Binary, ...]
    external: tuple[str, ...]
    other_binaries: tuple[tuple[str, str], ...]
    platform_tag: str | None
    findings: tuple[Finding, ...]

    @property
    def binaries(self) -> tuple[Binary, ...]:
        """Machine code of every format."""
        return (*self.objects, *self.mach_objects, *self.images)

    @property
    def ok(self) -> bool:
        """Whether the wheel may leave: no finding is an error."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)

    def to_json(self) -> dict[str, object]:
        """Return the versioned machine report, ready for ``json.dumps``."""
        row = to_row(self)
        return {
            "version": JSON_VERSION,
            "ok": self.ok,
            "wheel": {
                **{name: row[name] for name in ("sha256", "size", "name", "version", "build")},
                "path": str(self.path),
                "file": self.path.name,
                "tags": {"python": row["pythons"], "abi": row["abis"], "platform": row["platforms"]},
                **{name: row[name] for name in ("requires_python", "requires_dist", "platform_tag")},
            },
            "objects": [binary.to_json() for binary in self.objects],
            "mach_objects": [binary.to_json() for binary in self.mach_objects],
            "images": [binary.to_json() for binary in self.images],
            "bundled": [{"path": binary.path, "soname": binary.soname, "size": binary.size} for binary in self.bundled],
            "external": list(self.external),
            "other_binaries": [{"path": path, "kind": kind} for path, kind in self.other_binaries],
            "findings": [to_row(finding) for finding in self.findings],
        }


def make_report(wheel: Wheel, findings: Iterable[Finding]) -> WheelReport:
    """Return the report on ``wheel`` with ``findings``, worst first, else in their order."""
    order = list(Severity)
    tags = wheel.filename.tags
    return WheelReport(
        path=wheel.path,
        sha256=wheel.sha256,
        size=wheel.archive.size,
        name=wheel.filename.name,
        version=wheel.filename.version,
        build=wheel.filename.build,
        pythons=tuple(sorted({tag.interpreter for tag in tags})),
        abis=tuple(sorted({tag.abi for tag in tags})),
        platforms=tuple(tag.text for tag in wheel.platforms),
        requires_python=wheel.metadata.requires_python,
        requires_dist=wheel.metadata.requires_dist,
        objects=wheel.objects,
        mach_objects=wheel.mach_objects,
        images=wheel.images,
        bundled=wheel.bundled,
        external=wheel.external,
        other_binaries=tuple(
            (entry.path, entry.kind) for entry in wheel.archive.entries if entry.kind in ("mach-o", "pe")
        ),
        platform_tag=wheel.auditwheel.overall or None,
        findings=tuple(sorted(findings, key=lambda finding: order.index(finding.severity))),
    )
