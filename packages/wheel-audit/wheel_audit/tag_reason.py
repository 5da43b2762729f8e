"""Why a wheel cannot have an older manylinux tag: the symbol versions and libraries that auditwheel's next policy lacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from wheel_audit.elf import SharedObject
from wheel_audit.readers import read_json
from wheel_audit.tags import parse_platform, release_text
from wheel_audit.tools import AuditwheelReport


@cache
def _policies() -> tuple[tuple[str, dict[str, frozenset[str]]], ...]:
    """Return name and machine → allowed symbol versions of auditwheel's policies, newest first; none without it."""
    found = find_spec("auditwheel")
    try:
        path = Path(found.origin or "").parent if found else Path()
        rows = read_json(path / "policy" / "manylinux-policy.json", follow=True)
        return tuple(
            (
                row["name"],
                {
                    machine: frozenset(f"{family}_{item}" for family, items in families.items() for item in items)
                    for machine, families in row["symbol_versions"].items()
                },
            )
            for row in sorted(rows, key=lambda row: int(row["priority"]))
            if row["name"] != "linux"
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ()


def tag_reasons(report: AuditwheelReport, objects: Sequence[SharedObject]) -> tuple[str, ...]:
    """Return what keeps the wheel from the next older tag: ``CXXABI_1.3.13 in demo/_core.so``, newest version first.

    For a wheel that fits no manylinux tag, these are the libraries that it may not need. Empty if auditwheel did not run,
    for musl, and for the oldest tag.
    """
    tag = parse_platform(report.overall)
    if tag.system == "linux":
        return tuple(f"{name}, which it needs" for name in report.libraries.get(report.symbols, ()))
    names = [name for name, machines in _policies() if tag.arch in machines]
    policy = f"manylinux_{(release_text(tag.libc) or '').replace('.', '_')}"
    if tag.system != "manylinux" or policy not in names[:-1]:
        return ()
    older = names[names.index(policy) + 1]
    allowed = dict(_policies())[older][tag.arch]
    families = {item.rpartition("_")[0] for item in allowed}
    first: dict[str, str] = {}
    for binary in objects:
        for _, version in binary.symbols.versions_needed:
            if version not in allowed and version.rpartition("_")[0] in families:
                first.setdefault(version, binary.path)
    versions = [f"{version} in {first[version]}" for version in sorted(first, key=_order, reverse=True)]
    return (*versions, *(f"{name}, which it needs" for name in report.libraries.get(f"{older}_{tag.arch}", ())))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.rpartition("_")[2].split(".") if part.isdigit())
