"""What systems, drivers, Python and other wheels provide: libraries that a wheel may need without containing them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from wheel_audit.tags import Release, parse_release

_TABLES = tomllib.loads(Path(__file__).with_name("known_libraries.toml").read_text(encoding="utf-8"))

SYSTEM: tuple[str, ...] = tuple(_TABLES["linux"])
TORCH: tuple[str, ...] = tuple(_TABLES["torch"])
DRIVER: tuple[str, ...] = tuple(_TABLES["driver"])
KNOWN_EXTERNAL: tuple[str, ...] = (*TORCH, *DRIVER, *_TABLES["external"])
PROVIDERS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = tuple(
    (tuple(row["libraries"]), tuple(row["distributions"])) for row in _TABLES["provider"]
)
"""Globs of libraries, and regular expressions of the names of distributions that bring them."""

_GLIBCXX: dict[Release, Release] = {parse_release(k): parse_release(v) for k, v in _TABLES["glibcxx"].items()}

_WINDOWS = frozenset(_TABLES["windows"])
_MACOS = ("/usr/lib/", "/System/Library/")
"""Folders of libraries that every macOS has, in the system's shared cache."""

_API_SETS = ("api-ms-win-", "ext-ms-")
_WITH_PYTHON = re.compile(r"vcruntime140(?:_1)?\.dll", re.IGNORECASE)
"""What python.org's installers put next to python.exe: the C runtime, but not that of C++ (msvcp140)."""

PYTHON_DLL = re.compile(r"python(3[0-9]*)(t?)(_d)?\.dll", re.IGNORECASE)
"""Python's library on Windows: ``python3.dll`` has the stable ABI, ``python311.dll`` the ABI of one release."""

DEBUG_DLL = re.compile(
    r"(?:(?:vcruntime|msvcp|concrt|vccorlib|vcomp)[0-9]+(?:_[a-z0-9]+)*d|ucrtbased)\.dll", re.IGNORECASE
)
"""Microsoft's debug runtimes: only Visual Studio installs them, and their licence forbids redistribution."""

REDISTRIBUTABLE = re.compile(r"(?:msvcp|concrt|vccorlib|vcomp|vcamp|mfc)[0-9]+(?:_[a-z0-9_]+)?\.dll", re.IGNORECASE)
"""Microsoft's runtimes from the "Visual C++ Redistributable", which may not be installed."""

MACOS_PYTHON = re.compile(r"(?:^|/)(?:Python3?\.framework/.*|libpython3[.0-9]*t?\.dylib)$")
"""Python's library on macOS, in a framework or not."""


_NUMBERED = re.compile(
    r"(?:lib([\w-]+)\.so\.(\d{1,3})(?:\.\d+)*|([a-z-]+)(?:64)?_(\d\d)\d?(?:_\d+)?\.dll)", re.IGNORECASE
)
_CUDA = [(re.compile(names, re.IGNORECASE), majors) for names, majors in _TABLES["cuda"].items()]


def cuda_majors(library: str) -> tuple[str, ...]:
    """Return the CUDA major releases that have a library of this file name, oldest first; empty if the name tells none.

    ``libcusolver.so.11`` is in CUDA 11 and 12. Names on Windows have the minor release, too: ``cudart64_110.dll``.
    """
    if not (match := _NUMBERED.fullmatch(library)):
        return ()
    name, number = match[1] or match[3], match[2] or match[4]
    majors = next((majors for names, majors in _CUDA if names.fullmatch(name)), None)
    return () if majors is None else tuple(majors.get(number, ())) if majors else (number,)


def is_system_library(name: str) -> bool:
    """Whether the system or its Python always provides the library with this macOS install name or DLL name."""
    lower = name.lower()
    if name.startswith("/"):
        return name.startswith(_MACOS) and not MACOS_PYTHON.search(name)
    if lower.startswith(_API_SETS) or _WITH_PYTHON.fullmatch(lower):
        return True
    return lower.endswith((".dll", ".drv")) and lower.removesuffix(".dll") in _WINDOWS


def policy_of(libc: Release) -> Release:
    """Return the newest manylinux policy that a system with this glibc fulfils."""
    return max((policy for policy in _GLIBCXX if policy <= libc), default=min(_GLIBCXX))


def newest_glibcxx(libc: Release) -> Release:
    """Return the newest libstdc++ symbols that manylinux allows with this glibc."""
    return _GLIBCXX[policy_of(libc)]


def glibc_of(glibcxx: Release | None) -> Release | None:
    """Return the oldest manylinux policy that allows libstdc++ symbols; None without symbols, or if none does."""
    return min((policy for policy, newest in _GLIBCXX.items() if glibcxx and newest >= glibcxx), default=None)
