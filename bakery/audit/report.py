"""The report on one wheel: facts for tables and machines, and the findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bakery.audit.binary import to_row
from bakery.audit.finding import Finding, Severity
from bakery.audit.wheel import Wheel, WheelBinaries

JSON_VERSION = 1
"""Increased when a key of the JSON report is removed or changes its meaning; new keys do not count."""


@dataclass(frozen=True, slots=True)
class WheelReport(WheelBinaries):
    """The facts about one wheel, and its findings, most severe first.

    The name, version, build tag and tags are those of the file name, empty if it is invalid. ``other_binaries`` has path
    and kind of Mach-O and PE files, damaged ones too. ``platform_tag`` is the oldest tag that the wheel fulfils
    according to auditwheel; None if auditwheel did not run.
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
    other_binaries: tuple[tuple[str, str], ...]
    platform_tag: str | None
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether the wheel passed: no finding is an error."""
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
    """Return the report on ``wheel``; findings of the same severity stay in their order."""
    order = list(Severity)
    filename, metadata = wheel.filename, wheel.metadata
    return WheelReport(
        wheel.binaries,
        wheel.path,
        wheel.sha256,
        wheel.archive.size,
        filename.name,
        filename.version,
        filename.build,
        pythons=tuple(sorted({tag.interpreter for tag in filename.tags})),
        abis=tuple(sorted({tag.abi for tag in filename.tags})),
        platforms=tuple(tag.text for tag in wheel.platforms),
        requires_python=metadata.requires_python,
        requires_dist=metadata.requires_dist,
        other_binaries=tuple(
            (entry.path, entry.kind) for entry in wheel.archive.entries if entry.kind in ("mach-o", "pe")
        ),
        platform_tag=wheel.auditwheel.overall or None,
        findings=tuple(sorted(findings, key=lambda finding: order.index(finding.severity))),
    )
