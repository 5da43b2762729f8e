"""Platform tags and releases, parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms

Release = tuple[int, ...]
"""A version of a C or C++ library: (2, 28), (3, 4, 24)."""

System = Literal["any", "linux", "manylinux", "musllinux", "macos", "windows", "other"]

_LEGACY: dict[str, Release] = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_LINUX_TAG = re.compile(r"(manylinux|musllinux)_(\d{1,3})_(\d{1,3})_(\w+)")
_MACOS_TAG = re.compile(r"macosx_(\d{1,3})_(\d{1,3})_(\w+)")
_WINDOWS = {"win32": "x86", "win_amd64": "amd64", "win_arm64": "arm64"}
_FAT = {"universal2": ("x86_64", "arm64"), "intel": ("x86_64", "i386"), "universal": ("i386", "x86_64", "ppc")}
_ARCHES = {
    "macos/amd64": "x86_64",
    "linux/amd64": "x86_64",
    "linux/386": "i686",
    "linux/arm64": "aarch64",
    "linux/arm/v7": "armv7l",
}


@dataclass(frozen=True, slots=True)
class PlatformTag:
    """One platform tag: its text, system, machine, and the oldest glibc, musl or macOS that it promises to run on.

    An unknown system is ``other``, an unknown machine is empty.
    """

    text: str
    system: System
    libc: Release | None = None
    arch: str = ""
    macos: Release | None = None

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines: several for a universal tag of macOS."""
        return _FAT.get(self.arch, (self.arch,)) if self.system == "macos" else (self.arch,)

    def is_for(self, platform: str) -> bool:
        """Whether it is a tag for a recipe's platform, such as ``macos/arm64``."""
        system = "linux" if self.is_linux else self.system
        return system == platform.partition("/")[0] and arch_of(platform) in self.machines

    @property
    def is_linux(self) -> bool:
        """Whether wheels with this tag contain ELF objects."""
        return self.system in ("linux", "manylinux", "musllinux")


def parse_platform(text: str) -> PlatformTag:
    """Parse a platform tag."""
    legacy, _, arch = text.partition("_")
    if legacy in _LEGACY:
        return PlatformTag(text, "manylinux", _LEGACY[legacy], arch)
    if legacy == "linux":
        return PlatformTag(text, "linux", None, arch)
    if match := _LINUX_TAG.fullmatch(text):
        system: System = "manylinux" if match[1] == "manylinux" else "musllinux"
        return PlatformTag(text, system, (int(match[2]), int(match[3])), match[4])
    if match := _MACOS_TAG.fullmatch(text):
        release = int(match[1]), int(match[2])
        # macOS 11 says that it is 10.16 to programs of older systems.
        return PlatformTag(text, "macos", None, match[3], (11, 0) if release == (10, 16) else release)
    if text in _WINDOWS:
        return PlatformTag(text, "windows", None, _WINDOWS[text])
    return PlatformTag(text, "any" if text == "any" else "other")


def oldest_tags(tags: Iterable[PlatformTag]) -> list[PlatformTag]:
    """Return the tag with the oldest C library or macOS for each system and machine: releases of two systems have no order."""
    oldest: dict[tuple[str, str], PlatformTag] = {}
    for tag in sorted(tags, key=lambda tag: tag.libc or tag.macos or ()):
        if tag.libc or tag.macos:
            oldest.setdefault((tag.system, tag.arch), tag)
    return list(oldest.values())


_LINUX_ARCHES = "x86_64(?:_v[234])?|i686|aarch64|armv[678]l|ppc64|ppc64le|s390x|riscv64|loongarch64"
_TAKEN = re.compile(
    rf"any|linux_\w+|manylinux(?:1|2010)_(?:x86_64|i686)|(?:manylinux2014|(?:many|musl)linux_\d+_\d+)_(?:{_LINUX_ARCHES})|"
    r"win32|win_(?:amd64|arm64|ia64|arm32)|android_\d+_\w+|ios_\d+_\d+_\w+_iphone(?:os|simulator)|"
    r"(?:pyodide|pyemscripten|emscripten|wasi)_\w+"
)
_FAMILY = re.compile(r"(?:many|musl)?linux|win|mac|android|ios|pyodide")


def is_taken(tag: PlatformTag) -> bool:
    """Whether an installer may take a platform tag; True for a system whose tags are not known, such as FreeBSD's.

    Sources: PEP 425, 600, 656, 730, 738 and 783; for macOS ``packaging``, as pip and uv do.
    """
    if tag.system == "macos":
        return tag.text in _macos_tags()
    return bool(_TAKEN.fullmatch(tag.text)) or not _FAMILY.match(tag.text)


@cache
def _macos_tags() -> frozenset[str]:
    """Return all tags that an installer takes: of a release since 11 only the first minor one, for arm64 none before 11."""
    newest = {"arm64": (99, 0), "x86_64": (99, 0), "i386": (10, 16), "ppc64": (10, 5), "ppc": (10, 6)}
    return frozenset(tag for arch, release in newest.items() for tag in mac_platforms(release, arch))


_OWN_ABI = re.compile(r"cp(\d{2,3})-(?:none|cp\1[dmut]*|abi3t?)|py\d{1,3}-none")


def is_for_a_python(tag: Tag) -> bool:
    """Whether some Python takes interpreter and ABI of a tag: ``py3-cp312`` and ``cp312-cp311`` are for none (PEP 425).

    Other Pythons than CPython have their own rules.
    """
    return bool(_OWN_ABI.fullmatch(f"{tag.interpreter}-{tag.abi}")) or not re.match(r"(?:cp|py)\d", tag.interpreter)


def arch_of(platform: str) -> str:
    """Return the machine of a recipe's platform: ``linux/arm64`` is ``aarch64``, ``windows/amd64`` is ``amd64``."""
    return _ARCHES.get(platform, platform.rpartition("/")[2])


@cache
def installable_abis(python: str) -> frozenset[tuple[str, str]]:
    """Return the (interpreter, abi) pairs that CPython ``python`` installs: ``3.11`` or ``3.14t``."""
    major, _, minor = python.removesuffix("t").partition(".")
    release = (int(major), int(minor))
    abi = "cp" + python.replace(".", "")
    tags = [*cpython_tags(release, [abi], ["any"]), *compatible_tags(release, f"cp{major}{minor}", ["any"])]
    return frozenset((tag.interpreter, tag.abi) for tag in tags)


def release_text(release: Release | None) -> str | None:
    """Return a release as text, or None."""
    return None if release is None else ".".join(map(str, release))


def parse_release(text: str) -> Release:
    """Return ``2.28`` as (2, 28); raise ValueError for other texts."""
    return tuple(int(part) for part in text.split("."))
