"""Compares the reports on an older and a newer build of a wheel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from wheel_audit.auditor import WheelReport
from wheel_audit.fatbin import sorted_archs
from wheel_audit.tags import release_text
from wheel_audit.wheel import original_soname

Subject = Literal["version", "tags", "size", "object", "file", "glibc", "device code", "libraries", "requirements"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference of the wheel or of a ``file`` in it; ``old`` or ``new`` is empty if it was added or removed.

    ``bytes`` is the growth of a size, else 0.
    """

    subject: Subject
    old: str
    new: str
    file: str = ""
    bytes: int = 0


def compare(old: WheelReport, new: WheelReport) -> tuple[Change, ...]:
    """Return all differences that a user of the wheel may notice; empty for two builds of the same source."""
    return tuple(_changes(old, new))


def _changes(old: WheelReport, new: WheelReport) -> Iterator[Change]:
    was, is_now = ("-".join(filter(None, (report.name, report.version, report.build))) for report in (old, new))
    if was != is_now:
        yield Change("version", was, is_now)
    # One after the other: cp311 is both a Python and an ABI.
    for before, after in ((old.pythons, new.pythons), (old.abis, new.abis), (old.platforms, new.platforms)):
        yield from _lists("tags", before, after)
    yield from _size("size", old.size, new.size)
    yield from _objects(old, new)
    yield from _lists("file", _files(old), _files(new))
    needed, needs = _glibc(old), _glibc(new)
    if needed != needs:
        yield Change("glibc", needed, needs)
    # For the whole wheel: per object it would be repetitive.
    yield from _lists("device code", _device(old), _device(new))
    yield from _lists("libraries", _libraries(old), _libraries(new))
    yield from _lists("requirements", _requirements(old), _requirements(new))


def _objects(old: WheelReport, new: WheelReport) -> Iterator[Change]:
    """Compare the objects by path, without the hash in the name of bundled ones."""
    before, after = ({original_soname(binary.path): binary.size for binary in report.binaries} for report in (old, new))
    for path in sorted(before.keys() | after.keys()):
        was, is_now = before.get(path), after.get(path)
        if was is not None and is_now is not None:
            yield from _size("object", was, is_now, path)
        else:
            yield Change("object", _megabytes(was), _megabytes(is_now), path, (is_now or 0) - (was or 0))


def _files(report: WheelReport) -> Iterator[str]:
    """Yield the files that are no binaries; the folder of metadata without the version in its name."""
    binaries = {binary.path for binary in report.binaries} | {path for path, _ in report.other_binaries}
    for path in sorted(set(report.files) - binaries):
        top, slash, rest = path.partition("/")
        yield f"*.dist-info/{rest}" if slash and top.endswith(".dist-info") else path


def _glibc(report: WheelReport) -> str:
    """Return the newest glibc that an object needs; empty for none."""
    return release_text(max((item.glibc for item in report.objects if item.glibc), default=None)) or ""


def _lists(subject: Subject, old: Iterable[str], new: Iterable[str]) -> Iterator[Change]:
    before, after = (dict.fromkeys(items) for items in (old, new))
    yield from (Change(subject, item, "") for item in before if item not in after)
    yield from (Change(subject, "", item) for item in after if item not in before)


def _size(subject: Subject, old: int, new: int, file: str = "") -> Iterator[Change]:
    if old != new:
        yield Change(subject, _megabytes(old), _megabytes(new), file, new - old)


def _device(report: WheelReport) -> tuple[str, ...]:
    return sorted_archs(arch for binary in report.device_objects for arch in binary.device_code.archs)


def _libraries(report: WheelReport) -> tuple[str, ...]:
    bundled = (f"{original_soname(binary.file_name)} (bundled)" for binary in report.bundled)
    return tuple(sorted({*bundled, *report.external}))


def _requirements(report: WheelReport) -> tuple[str, ...]:
    python = (f"Python {report.requires_python}",) if report.requires_python else ()
    return (*python, *report.requires_dist)


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:,.2f} MB"
