"""Does the machine code run on the oldest system of the tag?"""

from __future__ import annotations

from collections.abc import Iterator, Set

from bakery.audit.elf import SharedObject
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.systems import newest_glibcxx
from bakery.audit.tags import Release, parse_release, release_text
from bakery.audit.wheel import Wheel, is_extension_or_dll

_FIRST_ARM = (11, 0)
"""The first macOS for arm64: code for it in a universal file never runs on older ones."""
_NEWEST_WINDOWS = (10, 0)
"""The version of Windows 10 and 11: files that need a newer one are not loaded."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every file that needs a newer system."""
    limits = [(tag.libc, tag.text) for tag in wheel.platforms if tag.system == "manylinux" and tag.libc]
    if expected.max_glibc is not None:
        limits.append((parse_release(expected.max_glibc), "the recipe"))
    systems = {tag.system for tag in wheel.platforms}
    brings_cxx = any(binary.file_name.startswith("libstdc++") for binary in wheel.bundled)
    for binary in wheel.objects:
        yield from _check_family(binary, systems)
        if limits:
            yield from _check_glibc(binary, *min(limits), brings_cxx=brings_cxx)
    yield from _check_macos(wheel)
    for image in filter(is_extension_or_dll, wheel.images):
        if image.floor > _NEWEST_WINDOWS:
            yield error("windows-floor", f"needs Windows {release_text(image.floor)}", image.path)


def _check_glibc(binary: SharedObject, limit: Release, source: str, *, brings_cxx: bool) -> Iterator[Finding]:
    # CentOS 7's glibc has symbols of 2.18 on aarch64, which auditwheel's policy allows.
    allowed = (2, 18) if limit == (2, 17) and binary.machine == "aarch64" else limit
    if binary.glibc and binary.glibc > allowed:
        text = f"needs glibc {release_text(binary.glibc)}, {source} allows {release_text(allowed)}"
        yield error("glibc-floor", text, binary.path)
    cap = newest_glibcxx(limit)
    if binary.glibcxx and binary.glibcxx > cap and not brings_cxx:
        text = f"needs GLIBCXX {release_text(binary.glibcxx)}, {source} allows {release_text(cap)}"
        yield error("glibcxx-floor", text, binary.path)


def _check_family(binary: SharedObject, systems: Set[str]) -> Iterator[Finding]:
    if "musllinux" in systems and (binary.glibc or "libc.so.6" in binary.needed):
        yield error("libc-family", "needs glibc under a musllinux tag", binary.path)
    if "manylinux" in systems and any(name.startswith("libc.musl-") for name in binary.needed):
        yield error("libc-family", "needs musl under a manylinux tag", binary.path)


def _check_macos(wheel: Wheel) -> Iterator[Finding]:
    floors: dict[str, Release] = {}
    for tag in wheel.platforms:
        if tag.macos:
            for machine in tag.machines:
                floors[machine] = min(tag.macos, floors.get(machine, tag.macos))
    for binary in wheel.mach_objects:
        for part in binary.slices:
            floor = floors.get(part.machine)
            if floor and part.machine == "arm64":
                floor = max(floor, _FIRST_ARM)
            if floor and part.floor and part.floor > floor:
                text = f"needs macOS {release_text(part.floor)} on {part.machine}, the tag says {release_text(floor)}"
                yield error("macos-floor", text, binary.path)
