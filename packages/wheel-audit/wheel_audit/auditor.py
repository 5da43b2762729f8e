"""Audits one wheel: reads it, runs all checks, and reports facts and findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from wheel_audit.archive import Archive
from wheel_audit.binary import to_row
from wheel_audit.checks import run_checks
from wheel_audit.elf import SharedObject
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, Severity, error
from wheel_audit.plain_files import open_plain
from wheel_audit.symbols import Symbols
from wheel_audit.tag_reason import tag_reasons
from wheel_audit.wheel import Wheel, WheelBinaries, parse_name, read_wheel
from wheel_audit.worker import LimitExceeded, call

JSON_VERSION = 1
"""Increased when a key of the JSON report is removed or changes its meaning; new keys do not count."""


@dataclass(frozen=True, slots=True)
class WheelReport(WheelBinaries):
    """The facts about one wheel, and its findings, most severe first.

    The name, version, build tag and tags are those of the file name, empty if it is invalid. ``other_binaries`` has
    path and kind of Mach-O and PE files, damaged ones too. ``platform_tag`` is the oldest tag that the wheel fulfils
    according to auditwheel; None if auditwheel did not run. ``platform_tag_reasons`` says what keeps it from an older one.
    ``files`` has the paths of all members that are not folders; the machine report leaves them out.
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
    platform_tag_reasons: tuple[str, ...]
    findings: tuple[Finding, ...]
    files: tuple[str, ...] = ()

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
                **{
                    name: row[name]
                    for name in ("requires_python", "requires_dist", "platform_tag", "platform_tag_reasons")
                },
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
        platform_tag_reasons=tag_reasons(wheel.auditwheel, wheel.objects),
        findings=tuple(sorted(findings, key=lambda finding: order.index(finding.severity))),
        files=tuple(entry.path for entry in wheel.archive.entries if not entry.path.endswith("/")),
    )


def audit_wheel(path: Path, expected: ExpectedWheel | None = None) -> WheelReport:
    """Audit one wheel; without ``expected``, against its own file name only.

    A file that is not a wheel gets a report with errors. Raises OSError if the file cannot be opened.
    """
    wheel = read_wheel(path)
    return make_report(wheel, run_checks(wheel, expected or ExpectedWheel()))


def audit_in_worker(path: Path, expected: ExpectedWheel | None = None) -> WheelReport:
    """Do what `audit_wheel` does in a process with limits. A finding names the limit that was exceeded."""
    with open_plain(path, follow=True) as file:
        size = file.seek(0, 2)
    try:
        return replace(call(_audit, path.absolute(), expected, size=size), path=path)
    except OSError:
        raise
    except LimitExceeded as reason:
        hint = "no valid wheel needs this much; if yours does, please report it: this is a bug in wheel-audit"
        finding = error("audit-limit", f"the audit was stopped: {reason.message}", hint=hint)
    except Exception as reason:
        text = f"the audit failed: {type(reason).__name__}: {reason}"[:2000]
        finding = error("audit-failed", text, hint="this is a bug in wheel-audit")
    return make_report(Wheel((), path, "", parse_name(path.name), Archive(size=size)), [finding])


def _audit(path: Path, expected: ExpectedWheel | None) -> WheelReport:
    """Return a report without the symbols: some libraries have a hundred thousand, and only the checks need them."""
    report = audit_wheel(path, expected)
    binaries = (
        replace(binary, symbols=Symbols(cxx_abi=binary.symbols.cxx_abi)) if isinstance(binary, SharedObject) else binary
        for binary in report.binaries
    )
    return replace(report, binaries=tuple(binaries))
