"""Platform tags taken apart, and what manylinux allows under each of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from packaging.tags import compatible_tags, cpython_tags

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

GLIBCXX_CAPS: dict[Release, Release] = {
    (2, 5): (3, 4, 8),
    (2, 12): (3, 4, 13),
    (2, 17): (3, 4, 19),
    (2, 24): (3, 4, 22),
    (2, 26): (3, 4, 22),
    (2, 27): (3, 4, 24),
    (2, 28): (3, 4, 24),
    (2, 31): (3, 4, 28),
    (2, 34): (3, 4, 29),
    (2, 35): (3, 4, 30),
    (2, 36): (3, 4, 30),
    (2, 37): (3, 4, 30),
    (2, 38): (3, 4, 30),
    (2, 39): (3, 4, 33),
    (2, 40): (3, 4, 33),
    (2, 41): (3, 4, 33),
}
"""glibc of each policy to the newest libstdc++ symbols it allows (auditwheel 6.8.2, manylinux-policy.json)."""

TORCH = ("libtorch*.so*", "libc10*.so*")
"""Sonames of torch's libraries."""

KNOWN_EXTERNAL = (
    "libcuda.so*",
    "libnvidia-*.so*",
    "libcudart.so*",
    "libcublas.so*",
    "libcublasLt.so*",
    "libcufft.so*",
    "libcufftw.so*",
    "libcufile.so*",
    "libcupti.so*",
    "libcurand.so*",
    "libcusolver.so*",
    "libcusolverMg.so*",
    "libcusparse.so*",
    "libcusparseLt.so*",
    "libcudnn*.so*",
    "libnccl.so*",
    "libnvJitLink.so*",
    "libnvfatbin.so*",
    "libnvrtc.so*",
    "libnvrtc-builtins.so*",
    "libnvshmem*.so*",
    "libnvToolsExt.so*",
    *TORCH,
    "nvcuda.dll",
    "cudart64_*.dll",
    "cublas*64_*.dll",
    "cudnn*64_*.dll",
    "cusolver*64_*.dll",
    "cusparse64_*.dll",
    "cufft*64_*.dll",
    "curand64_*.dll",
    "nvrtc64_*.dll",
    "torch*.dll",
    "c10*.dll",
    "libtorch*.dylib",
    "libc10*.dylib",
)
"""Sonames that the driver, NVIDIA's wheels or torch bring; a wheel that grafts one in is broken or bloated."""


@dataclass(frozen=True, slots=True)
class PlatformTag:
    """One platform tag.

    Attributes:
        text: the tag itself.
        system: its family; ``other`` is what is not known.
        libc: the oldest glibc or musl it claims to run on.
        arch: the machine; empty where it is not known.
        macos: the oldest macOS it claims to run on.
    """

    text: str
    system: System
    libc: Release | None = None
    arch: str = ""
    macos: Release | None = None

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines it claims to run on: several for a universal tag of macOS."""
        return _FAT.get(self.arch, (self.arch,)) if self.system == "macos" else (self.arch,)

    def is_for(self, platform: str) -> bool:
        """Whether it is a tag of a recipe's platform, such as ``macos/arm64``."""
        system = "linux" if self.is_linux else self.system
        return system == platform.partition("/")[0] and arch_of(platform) in self.machines

    @property
    def is_linux(self) -> bool:
        """Whether wheels under this tag hold ELF objects."""
        return self.system in ("linux", "manylinux", "musllinux")


def parse_platform(text: str) -> PlatformTag:
    """Take a platform tag apart; never fails: an unknown one is ``other``."""
    legacy, _, arch = text.partition("_")
    if legacy in _LEGACY:
        return PlatformTag(text, "manylinux", _LEGACY[legacy], arch)
    if legacy == "linux":
        return PlatformTag(text, "linux", None, arch)
    if match := _LINUX_TAG.fullmatch(text):
        system: System = "manylinux" if match[1] == "manylinux" else "musllinux"
        return PlatformTag(text, system, (int(match[2]), int(match[3])), match[4])
    if match := _MACOS_TAG.fullmatch(text):
        return PlatformTag(text, "macos", None, match[3], (int(match[1]), int(match[2])))
    if text in _WINDOWS:
        return PlatformTag(text, "windows", None, _WINDOWS[text])
    return PlatformTag(text, "any" if text == "any" else "other")


def arch_of(platform: str) -> str:
    """Return the machine of a recipe's platform: ``linux/arm64`` is ``aarch64``, ``windows/amd64`` is ``amd64``."""
    return _ARCHES.get(platform, platform.rpartition("/")[2])


def policy_of(libc: Release) -> Release:
    """Return the newest manylinux policy that a system with that glibc fulfils."""
    return max((policy for policy in GLIBCXX_CAPS if policy <= libc), default=min(GLIBCXX_CAPS))


def installable_abis(python: str) -> frozenset[tuple[str, str]]:
    """Return the (interpreter, abi) pairs that CPython ``python`` installs: ``3.11`` or ``3.14t``."""
    major, _, minor = python.removesuffix("t").partition(".")
    release = (int(major), int(minor))
    abi = "cp" + python.replace(".", "")
    tags = [
        *cpython_tags(release, [abi], ["any"]),
        *compatible_tags(release, f"cp{major}{minor}", ["any"]),
    ]
    return frozenset((tag.interpreter, tag.abi) for tag in tags)


def release_text(release: Release | None) -> str | None:
    """Return a release as text, or None."""
    return None if release is None else ".".join(map(str, release))


def parse_release(text: str) -> Release:
    """Return ``2.28`` as (2, 28).

    Raises:
        ValueError: it is no dotted number.
    """
    return tuple(int(part) for part in text.split("."))
