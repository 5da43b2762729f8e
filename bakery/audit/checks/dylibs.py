"""Does every Mach-O file find its libraries on any Mac?"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, error
from bakery.audit.macho import MachObject, Slice
from bakery.audit.systems import MACOS_PYTHON, is_system_library
from bakery.audit.tags import KNOWN_EXTERNAL
from bakery.audit.wheel import Wheel

IDS = {
    "dylib-absolute": "a file loads a library from a folder of the build machine",
    "dylib-missing": "a file loads a library that is neither in the wheel nor part of macOS, and nothing excludes it",
    "dylib-rpath": "a file searches libraries in a folder of the build machine",
    "python-linked": "a module loads Python's own library, so it works in the one installation that has it there",
}
_INSTALLED = re.compile(r"^[^/]+\.data/(?:platlib|purelib)/")
_LOADER = "@loader_path"


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every library that a Mac without the build machine's folders does not find."""
    paths = {_INSTALLED.sub("", entry.path) for entry in wheel.archive.entries}
    names = {posixpath.basename(path) for path in paths}
    # Without a promise nobody said what may stay outside: another wheel may bring it.
    severity = Severity.WARNING if expected.is_empty else Severity.ERROR
    outside = (*expected.excludes, *KNOWN_EXTERNAL)
    for found in wheel.mach_objects:
        said: set[str] = set()
        for part in found.slices:
            for name in part.needed:
                if name not in said and name not in part.weak:
                    said.add(name)
                    is_inside = _is_inside(found, name, paths, names)
                    yield from _check_library(found, part, name, outside, severity, is_inside=is_inside)
            for path in part.rpaths:
                if path not in said and not path.startswith(("@", "/usr/lib/", "/System/")):
                    said.add(path)
                    yield Finding(
                        "dylib-rpath",
                        severity,
                        f"its LC_RPATH has {path!r}, a folder of the build machine",
                        found.path,
                        "remove it: install_name_tool -delete_rpath, or delocate's --sanitize-rpaths",
                    )


def _check_library(
    found: MachObject, part: Slice, name: str, outside: tuple[str, ...], severity: Severity, *, is_inside: bool
) -> Iterator[Finding]:
    base = PurePosixPath(name).name
    if MACOS_PYTHON.search(name):
        if part.kind == "module":
            yield Finding(
                "python-linked",
                severity,
                f"loads {name}",
                found.path,
                "link modules with -undefined dynamic_lookup, not with libpython",
            )
    elif name.startswith("/") and not is_system_library(name):
        yield error(
            "dylib-absolute",
            f"loads {name}, which other machines lack",
            file=found.path,
            hint="let the repair (delocate) bundle it",
        )
    elif not (name.startswith("/") or is_inside or _matches(base, outside)):
        yield Finding(
            "dylib-missing",
            severity,
            f"loads {name}, which is not in the wheel",
            found.path,
            "let the repair (delocate) bundle it, or name it in the excludes",
        )


def _matches(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _is_inside(found: MachObject, name: str, paths: set[str], names: set[str]) -> bool:
    """Whether the loader finds a library in the wheel."""
    if name.startswith(f"{_LOADER}/"):
        folder = posixpath.dirname(_INSTALLED.sub("", found.path))
        return posixpath.normpath(name.replace(_LOADER, folder or ".", 1)) in paths
    # One that is loaded already is found by its name alone, wherever it lies.
    return posixpath.basename(name) in names
