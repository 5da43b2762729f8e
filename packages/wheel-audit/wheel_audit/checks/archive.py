"""Is the file a valid zip archive that is safe to unpack?"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator

from wheel_audit.archive import Entry, path_defect
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, Severity, error, error_if
from wheel_audit.limits import expansion_limit
from wheel_audit.wheel import Wheel, parse_name
from wheel_audit.zips import METHODS


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield the defects of the archive."""
    archive = wheel.archive
    if archive.defect:
        hint = "build or download it again: the file is not what its name says, or is cut off"
        yield error("archive-unreadable", f"not a readable zip archive: {archive.defect}", hint=hint)
        return
    if archive.layout:
        yield error("archive-layout", f"{archive.layout}; PyPI and uv refuse such an archive")
    if archive.excess:
        yield error("audit-limit", f"{archive.excess}; the rest of it was not read")
    if archive.is_bomb:
        text = f"unpacks from {archive.size:,} to {archive.unpacked_size:,} bytes"
        limit = expansion_limit(archive.size)
        yield error("archive-bomb", f"{text}, more than {limit:,}; its content was not read")
    for path, count in Counter(entry.path for entry in archive.entries).items():
        if count > 1:
            yield error("archive-duplicate", f"appears {count} times", path)
    yield from _check_case(wheel)
    yield from _check_nested(wheel)
    yield from _check_writable(wheel)
    for entry in archive.entries:
        yield from _check_entry(entry)


def _check_case(wheel: Wheel) -> Iterator[Finding]:
    alike: dict[str, set[str]] = {}
    for entry in wheel.archive.entries:
        alike.setdefault(entry.path.casefold(), set()).add(entry.path)
    linux = bool(wheel.platforms) and all(tag.is_linux for tag in wheel.platforms)
    for paths in alike.values():
        if len(paths) > 1:
            first, *others = sorted(paths)
            yield Finding("archive-case", error_if(not linux), f"differs only in case from {', '.join(others)}", first)


def _check_nested(wheel: Wheel) -> Iterator[Finding]:
    for entry in wheel.archive.entries:
        *_, name = entry.path.split("/")
        if name.endswith(".whl") and parse_name(name).name == wheel.filename.name and wheel.filename.name:
            yield error("archive-nested", "is a wheel of the same project", entry.path)


def _check_writable(wheel: Wheel) -> Iterator[Finding]:
    writable = [entry for entry in wheel.archive.entries if entry.mode & stat.S_IWOTH and not entry.is_special]
    if writable:
        # Archives made on Windows have mode 0666 for every file, which is not intended.
        linux = any(tag.is_linux for tag in wheel.platforms)
        severity = Severity.ERROR if linux else Severity.INFO
        text = f"{len(writable)} members are writable by everyone, this one first"
        yield Finding("archive-mode", severity, text, writable[0].path)


def _check_entry(entry: Entry) -> Iterator[Finding]:
    if reason := path_defect(entry.path):
        yield error("archive-path", f"the path is {reason}", entry.path)
    if entry.is_special:
        yield error("archive-link", f"has file type {stat.filemode(entry.mode)[0]!r}", entry.path)
    elif entry.mode & (stat.S_ISUID | stat.S_ISGID):
        yield error("archive-mode", f"has mode {stat.S_IMODE(entry.mode):04o}", entry.path)
    if entry.encrypted:
        yield error("archive-encrypted", "is encrypted", entry.path)
    if entry.method not in METHODS:
        yield error("archive-compression", f"is compressed by zip method {entry.method}", entry.path)
    if entry.defect:
        yield error("archive-damaged", f"cannot be read: {entry.defect}", entry.path)
