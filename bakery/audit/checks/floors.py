"""Does the machine code run on the oldest system that the tag promises?"""

from __future__ import annotations

from collections.abc import Iterator, Set

from bakery.audit.elf import SharedObject
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.systems import newest_glibcxx
from bakery.audit.tags import Release, parse_release, release_text
from bakery.audit.wheel import Wheel, is_extension_or_dll

IDS = {
    "glibc-floor": "a shared object needs a newer glibc than the tag or the recipe allows",
    "glibcxx-floor": "a shared object needs a newer libstdc++ than the tag allows",
    "libc-family": "a shared object is linked to glibc under a musllinux tag, or the reverse",
    "macos-floor": "a Mach-O file needs a newer macOS than the tag says",
    "windows-floor": "a module or DLL refuses every Windows that Python runs on",
}
HINTS = {
    "glibc-floor": "build in an image with the older glibc, or allow the newer one",
    "glibcxx-floor": "use the image's own gcc-toolset, or link with -static-libstdc++",
    "macos-floor": "compile everything, libraries too, with one MACOSX_DEPLOYMENT_TARGET (macos.minimum in the recipe)",
}
_FIRST_ARM = (11, 0)
"""The oldest macOS on arm64: a universal file's code for it is always that new."""
_NEWEST_WINDOWS = (10, 0)
"""What Windows 10 and 11 call themselves: a file that asks for more is loaded by neither."""


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
    # CentOS 7's glibc has symbols of 2.18 on aarch64; auditwheel's policy allows them, too.
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
