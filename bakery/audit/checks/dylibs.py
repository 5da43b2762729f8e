"""Does every Mach-O file find its libraries on any Mac?"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from bakery.audit.dependencies import matches
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error, error_if
from bakery.audit.macho import MachObject
from bakery.audit.systems import MACOS_PYTHON, is_system_library
from bakery.audit.tags import KNOWN_EXTERNAL
from bakery.audit.wheel import Wheel

IDS = {
    "dylib-absolute": "a file loads a library from a folder of the build machine",
    "dylib-missing": "a file loads a library that is neither in the wheel nor part of macOS, and nothing excludes it",
    "dylib-rpath": "a file searches libraries in a folder of the build machine",
    "python-linked": "a module loads Python's own library, so it works in the one installation that has it there",
}
HINTS = {
    "dylib-absolute": "let the repair (delocate) bundle it",
    "dylib-missing": "let the repair (delocate) bundle it, or name it in the excludes",
    "dylib-rpath": "remove it: install_name_tool -delete_rpath, or delocate's --sanitize-rpaths",
    "python-linked": "link modules with -undefined dynamic_lookup, not with libpython",
}
_INSTALLED = re.compile(r"^[^/]+\.data/(?:platlib|purelib)/")
_LOADER = "@loader_path/"


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every library that a Mac without the build machine's folders does not find."""
    paths = {_INSTALLED.sub("", entry.path) for entry in wheel.archive.entries}
    names = {posixpath.basename(path) for path in paths}
    # Without a recipe nobody said what may stay outside: another wheel may bring it.
    severity = error_if(not expected.is_empty)
    outside = (*expected.excludes, *KNOWN_EXTERNAL)
    for binary in wheel.mach_objects:
        # A universal file has the same names in each of its slices.
        needed = {name: part.kind for part in reversed(binary.slices) for name in part.needed if name not in part.weak}
        for name, kind in needed.items():
            base = posixpath.basename(name)
            if MACOS_PYTHON.search(name):
                if kind == "module":
                    yield Finding("python-linked", severity, f"loads {name}", binary.path)
            elif name.startswith("/"):
                if not is_system_library(name):
                    yield error("dylib-absolute", f"loads {name}, which other machines lack", binary.path)
            elif not (_is_inside(binary, name, paths, names) or matches([base], outside)):
                yield Finding("dylib-missing", severity, f"loads {name}, which is not in the wheel", binary.path)
        for path in dict.fromkeys(path for part in binary.slices for path in part.rpaths):
            if not path.startswith(("@", "/usr/lib/", "/System/")):
                text = f"its LC_RPATH has {path!r}, a folder of the build machine"
                yield Finding("dylib-rpath", severity, text, binary.path)


def _is_inside(binary: MachObject, name: str, paths: set[str], names: set[str]) -> bool:
    """Whether the loader finds a library in the wheel."""
    if name.startswith(_LOADER):
        folder = posixpath.dirname(_INSTALLED.sub("", binary.path)) or "."
        return posixpath.normpath(f"{folder}/{name.removeprefix(_LOADER)}") in paths
    # One that is loaded already is found by its name alone, wherever it lies.
    return posixpath.basename(name) in names
