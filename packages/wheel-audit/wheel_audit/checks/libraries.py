"""Are external libraries not in the wheel, and all others found on any machine?"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from packaging.utils import canonicalize_name

from wheel_audit.binary import Binary
from wheel_audit.dependencies import matches
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, Severity, error, error_if, info, warning
from wheel_audit.macho import MachObject
from wheel_audit.pe import PeImage
from wheel_audit.requirements import parse_requirement
from wheel_audit.systems import (
    DEBUG_DLL,
    DRIVER,
    KNOWN_EXTERNAL,
    MACOS_PYTHON,
    PROVIDERS,
    PYTHON_DLL,
    REDISTRIBUTABLE,
    is_system_library,
)
from wheel_audit.text import listed
from wheel_audit.wheel import Wheel, installed_path, is_extension_or_dll, is_grafted, original_soname

_ORIGIN = ("$ORIGIN", "${ORIGIN}")
_RELEASE = re.compile(r"cp(3[0-9]+)(t?)")
_LOADER = "@loader_path/"
_LEADS_AWAY = re.compile(r"\.\./(?:nvidia|torch|tensorflow|pyarrow|jaxlib|paddle)\b")
"""A search path with the folder of another distribution."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield libraries that must not be in the wheel, and libraries that other machines do not find."""
    yield from _check_contained(wheel, expected)
    yield from _check_excludes(wheel, expected)
    yield from _check_providers(wheel, expected)
    yield from _check_search_paths(wheel)
    # Without a recipe, nothing says which libraries another wheel provides.
    severity = error_if(not expected.is_empty)
    outside = (*expected.excludes, *KNOWN_EXTERNAL)
    yield from _check_dlls(wheel, tuple(glob.lower() for glob in outside), severity)
    yield from _check_dylibs(wheel, outside, severity)


def _check_contained(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield libraries that must not be in the wheel, with their sizes.

    Bundled libraries, those that the recipe excludes and those of the driver are errors. Another known library in the
    project's own folder is only mentioned: it may be the purpose of the wheel, as for NVIDIA's and torch's.
    """
    for binary in wheel.binaries:
        names = _names(binary)
        excluded = matches(names, expected.excludes)
        if excluded or matches(names, KNOWN_EXTERNAL):
            # What is linked with a toolkit's stubs finds the driver later: no loader searches there.
            driver = matches(names, DRIVER) and "stubs" not in PurePosixPath(binary.path).parts
            wrong = excluded or driver or is_grafted(binary.path)
            text = f"contains {names[0]} ({binary.size / 1e6:.1f} MB)"
            hint = "exclude it from the repair and require the package that provides it" if wrong else ""
            hint = "leave it out: it must be that of the driver on the user's machine" if driver else hint
            yield Finding("bundled-library", Severity.ERROR if wrong else Severity.INFO, text, binary.path, hint)


def _check_excludes(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield patterns that miss a bundled library by a part of its name, and patterns without a match."""
    present = {name for binary in wheel.binaries for name in _names(binary)}
    known = {*present, *wheel.external, *(name.rpartition("/")[2] for name in wheel.external)}
    for pattern in dict.fromkeys(expected.excludes):
        if matches(known, [pattern]):
            continue
        near = [
            (binary.path, name)
            for binary in wheel.bundled
            for name in _names(binary)[:1]
            if matches([_stem(name)], [_stem(pattern)])
        ]
        for path, name in near:
            text = f"is {name}, which the exclude pattern {pattern!r} of the recipe does not match"
            yield error("exclude-near-miss", text, path)
        if not near and wheel.binaries:
            yield info("exclude-unused", f"no library matches the exclude pattern {pattern!r} of the recipe")


def _stem(name: str) -> str:
    """Return what a library is called without folder, ``lib`` and versions: ``/usr/lib/liblz4.so.1`` is ``lz4``."""
    base = name.rpartition("/")[2].lower()
    return re.sub(r"(?:[-.]?\*|-\d[\d.]*)$", "", re.split(r"\.(?:so|dylib|dll)\b", base)[0]).removeprefix("lib")


def _check_providers(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield libraries of other distributions that nothing in METADATA brings, and no search path leads to."""
    if not wheel.metadata.folder:
        return
    required = [canonicalize_name(item.name) for item in map(parse_requirement, wheel.metadata.requires_dist) if item]
    external = frozenset(wheel.external)
    for globs, distributions in PROVIDERS:
        brings = re.compile("|".join(distributions))
        if any(map(brings.fullmatch, required)):
            continue
        needed: dict[str, str] = {}
        for binary in wheel.objects:
            paths = ":".join(filter(None, (binary.rpath, binary.runpath)))
            for name in binary.needed if not _LEADS_AWAY.search(paths) else ():
                if name in external and matches([name], globs):
                    needed.setdefault(name, binary.path)
        if needed:
            text = f"needs {listed(sorted(needed))}, and METADATA requires no distribution that brings it"
            yield warning("requirement-absent", text, min(needed.values()))


def _check_search_paths(wheel: Wheel) -> Iterator[Finding]:
    for binary in wheel.objects:
        for kind, paths in (("RPATH", binary.rpath), ("RUNPATH", binary.runpath)):
            for path in (paths or "").split(":") if paths else ():
                if reason := _search_path_defect(binary.path, path):
                    yield error("rpath-absolute", f"its {kind} has {path!r}, which is {reason}", binary.path)


def _names(binary: Binary) -> list[str]:
    names = [original_soname(name) for name in (binary.soname, binary.file_name) if name]
    # Names on Windows are not case-sensitive.
    return names + [name.lower() for name in names]


def _search_path_defect(file: str, path: str) -> str:
    origin = next((name for name in _ORIGIN if path == name or path.startswith(name + "/")), None)
    if origin is None:
        # An empty or relative path depends on the current folder.
        return "absolute" if path.startswith("/") else "relative to the current folder"
    # The folder of another project is allowed: NVIDIA's libraries are found there.
    depth = len(PurePosixPath(file).parts) - 1
    for part in path.removeprefix(origin).split("/"):
        depth += {"..": -1, "": 0, ".": 0}.get(part, 1)
        if depth < 0:
            return "outside the folder that wheels are unpacked into"
    return ""


def _check_dlls(wheel: Wheel, outside: tuple[str, ...], severity: Severity) -> Iterator[Finding]:
    inside = {entry.path.rpartition("/")[2].lower() for entry in wheel.archive.entries}
    imported = {name.lower() for image in wheel.images for name in image.imports}
    pythons = {name for name in imported if (match := PYTHON_DLL.fullmatch(name)) and match[1] != "3"}
    for image in filter(is_extension_or_dll, wheel.images):
        loaded = frozenset(image.imports)
        for name in dict.fromkeys((*image.imports, *image.delayed)):
            if match := PYTHON_DLL.fullmatch(name):
                yield from _check_python_dll(wheel, image, match)
                if pythons == {name.lower()} and name.lower() not in inside and _is_for_all(wheel):
                    text = f"needs {name}, so it loads in one Python, but the wheel is tagged for all of them"
                    yield Finding("python-dll", severity, text, image.path)
            elif DEBUG_DLL.fullmatch(name):
                text, hint = f"needs {name}, which only Visual Studio installs", "build in release mode: /MD, not /MDd"
                yield error("debug-runtime", text, image.path, hint)
            elif name.lower() in inside or is_system_library(name) or matches([name.lower()], outside):
                continue
            elif REDISTRIBUTABLE.fullmatch(name):
                yield Finding("runtime-missing", severity, f"needs {name}, which a machine may lack", image.path)
            else:
                # A DLL that is loaded on its first call may be optional.
                weight = severity if name in loaded else Severity.WARNING
                yield Finding("dll-missing", weight, f"needs {name}, which is not in the wheel", image.path)


def _check_python_dll(wheel: Wheel, image: PeImage, match: re.Match[str]) -> Iterator[Finding]:
    name, release, free_threaded, debug = match[0], match[1], match[2], match[3]
    if debug:
        yield error("debug-runtime", f"needs {name}, a Python for debugging", image.path)
        return
    tags = wheel.filename.tags
    names = {tag.interpreter if tag.abi == "none" else tag.abi for tag in tags}
    releases = {(m[1], m[2]) for name in names if (m := _RELEASE.fullmatch(name))}
    if release == "3":
        return
    if not releases and any(tag.abi in ("abi3", "abi3t") for tag in tags):
        text = f"needs {name}, so it loads in one Python, but the wheel is tagged for the stable ABI"
        hint = "define Py_LIMITED_API, so that it is linked with python3.dll"
        yield error("python-dll", text, image.path, hint)
    elif releases and (release, free_threaded.lower()) not in releases:
        text = f"needs {name}, the wheel is tagged {', '.join(sorted(map(str, tags)))}"
        yield error("python-dll", text, image.path)


def _is_for_all(wheel: Wheel) -> bool:
    """Whether any Python takes the wheel: ``py3-none``."""
    return all(tag.abi == "none" and tag.interpreter.startswith("py") for tag in wheel.filename.tags)


def _check_dylibs(wheel: Wheel, outside: tuple[str, ...], severity: Severity) -> Iterator[Finding]:
    paths = {installed_path(entry.path) for entry in wheel.archive.entries}
    names = {posixpath.basename(path) for path in paths}
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
    if name.startswith(_LOADER):
        folder = posixpath.dirname(installed_path(binary.path)) or "."
        return posixpath.normpath(f"{folder}/{name.removeprefix(_LOADER)}") in paths
    # A library that is already loaded is found by its name in any folder.
    return posixpath.basename(name) in names
