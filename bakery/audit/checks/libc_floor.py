"""Do the shared objects run on the oldest system that the tag promises?"""

from __future__ import annotations

from collections.abc import Iterator, Set

from bakery.audit.elf import SharedObject
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.tags import GLIBCXX_CAPS, Release, parse_release, policy_of, release_text
from bakery.audit.wheel import Wheel

IDS = {
    "glibc-floor": "a shared object needs a newer glibc than the tag or the promise allows",
    "glibcxx-floor": "a shared object needs a newer libstdc++ than the tag allows",
    "libc-family": "a shared object is linked to glibc under a musllinux tag, or the reverse",
}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every object whose symbols are too new."""
    limits = [(tag.libc, tag.text) for tag in wheel.platforms if tag.system == "manylinux" and tag.libc]
    if expected.max_glibc is not None:
        limits.append((parse_release(expected.max_glibc), "the recipe"))
    own_cxx, systems = _brings_cxx(wheel), {tag.system for tag in wheel.platforms}
    for found in wheel.objects:
        yield from _check_family(found, systems)
        if limits:
            limit, source = min(limits)
            yield from _check_floors(found, limit, source, own_cxx=own_cxx)


def _check_floors(found: SharedObject, limit: Release, source: str, *, own_cxx: bool) -> Iterator[Finding]:
    # CentOS 7's glibc has symbols of 2.18 on aarch64; auditwheel's policy allows them, too.
    allowed = (2, 18) if limit == (2, 17) and found.machine == "aarch64" else limit
    if found.glibc and found.glibc > allowed:
        yield error(
            "glibc-floor",
            f"needs glibc {release_text(found.glibc)}, {source} allows {release_text(allowed)}",
            file=found.path,
            hint="build in an image with the older glibc, or allow the newer one",
        )
    cap = GLIBCXX_CAPS[policy_of(limit)]
    if found.glibcxx and found.glibcxx > cap and not own_cxx:
        yield error(
            "glibcxx-floor",
            f"needs GLIBCXX {release_text(found.glibcxx)}, {source} allows {release_text(cap)}",
            file=found.path,
            hint="use the image's own gcc-toolset, or link with -static-libstdc++",
        )


def _check_family(found: SharedObject, systems: Set[str]) -> Iterator[Finding]:
    if "musllinux" in systems and (found.glibc or "libc.so.6" in found.needed):
        yield error("libc-family", "needs glibc under a musllinux tag", file=found.path)
    if "manylinux" in systems and any(name.startswith("libc.musl-") for name in found.needed):
        yield error("libc-family", "needs musl under a manylinux tag", file=found.path)


def _brings_cxx(wheel: Wheel) -> bool:
    return any(found.file_name.startswith("libstdc++") for found in wheel.bundled)
