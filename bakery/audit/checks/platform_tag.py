"""Is the platform tag one that may be published, and the promised one?"""

from __future__ import annotations

from collections.abc import Iterator

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, error
from bakery.audit.tags import PlatformTag, arch_of, parse_platform, parse_release
from bakery.audit.wheel import Wheel

IDS = {
    "linux-tag": "a bare linux tag says nothing of the systems the wheel runs on",
    "promised-platform": "the tag is for another machine or system than the cell",
    "promised-plat": "the tag asks for a newer system than was promised",
}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield what is wrong with the platform tags."""
    tags = wheel.platforms
    for tag in tags:
        if tag.system == "linux":
            yield Finding(
                "linux-tag",
                Severity.WARNING if expected.platform is None else Severity.ERROR,
                f"is tagged {tag.text}, which no index accepts",
                hint="repair it: auditwheel gives it a manylinux or musllinux tag",
            )
    # A pure wheel runs everywhere, so also there; whether it may be pure is another check.
    if not tags or any(tag.system == "any" for tag in tags):
        return
    listed = ", ".join(tag.text for tag in tags)
    if expected.platform is not None and not all(tag.is_for(expected.platform) for tag in tags):
        yield error(
            "promised-platform",
            f"is tagged {listed}, expected {expected.platform} ({arch_of(expected.platform)})",
            hint="does the base image exist for this platform, or was another one's used?"
            if expected.platform.startswith("linux/")
            else "was it built by another machine's Python than the cell's?",
        )
    for wanted in _promised_tags(expected):
        if not any(_installs_under(tag, wanted) for tag in tags):
            yield error("promised-plat", f"is tagged {listed}, expected {wanted.text} or older")


def _promised_tags(expected: ExpectedWheel) -> Iterator[PlatformTag]:
    if expected.plat is not None:
        yield parse_platform(expected.plat)
    if expected.max_glibc is not None:
        yield PlatformTag(f"glibc {expected.max_glibc}", "manylinux", parse_release(expected.max_glibc))


def _installs_under(tag: PlatformTag, wanted: PlatformTag) -> bool:
    """Whether a system that is just new enough for ``wanted`` takes a wheel tagged ``tag``."""
    if tag.macos and wanted.macos:
        return set(wanted.machines) <= set(tag.machines) and tag.macos <= wanted.macos
    if tag.libc is None or wanted.libc is None:
        return tag.text == wanted.text
    return tag.system == wanted.system and tag.arch == (wanted.arch or tag.arch) and tag.libc <= wanted.libc
