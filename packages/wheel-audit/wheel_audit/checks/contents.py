"""Are the members what their names say, and what installers take?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from wheel_audit.archive import Entry
from wheel_audit.expected_wheel import ExpectedWheel, folder_of
from wheel_audit.finding import Finding, error, error_if, warning
from wheel_audit.readers import ini_of
from wheel_audit.requirements import parse_requirement
from wheel_audit.tags import parse_release
from wheel_audit.wheel import Wheel, installed_path

POINTER = b"version https://git-lfs.github.com/spec/v1"
"""The first line of a pointer of Git LFS (its specification, version 1)."""

_LIBRARY = re.compile(r"\.(?:so(?:\.\d+)*|pyd|dll|dylib)$", re.IGNORECASE)
_OTHER_LIBRARIES = (b"\0asm", b"/* GNU ld script", b"INPUT", b"GROUP", b"OUTPUT_FORMAT")
"""How WebAssembly and scripts of the linker begin, which also have the names of libraries."""

_SCHEMES = ("purelib", "platlib", "headers", "scripts", "data")
"""Folders in ``NAME-VERSION.data`` (packaging's specification of wheels)."""

_OBJECT = re.compile(r"\s*(\w+(?:\.\w+)*)(?:\s*:\s*(\w+(?:\.\w+)*))?\s*(?:\[[^\]]*\])?\s*")
"""The value of an entry point (packaging's specification of entry points)."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield members that are not what their names say, and what installers refuse."""
    if not wheel.archive.is_read:
        return
    for entry in wheel.archive.entries:
        yield from _check_entry(entry, wheel)
    if expected.native and not any(folder_of(entry.path, expected.native) for entry in wheel.archive.entries):
        yield warning(
            "native-absent", "no file of this folder, which the build filled, is in the wheel", expected.native
        )
    if wheel.metadata.folder:
        yield from _check_licences(wheel, expected)
        yield from _check_entry_points(wheel)
        yield from _check_extras(wheel)
        yield from _check_wheel_version(wheel)


def _check_entry(entry: Entry, wheel: Wheel) -> Iterator[Finding]:
    folder, _, inside = entry.path.partition("/")
    if folder.endswith(".data"):
        if folder.removesuffix(".data") != wheel.metadata.folder.removesuffix(".dist-info"):
            yield error("data-folder", f"is not in {wheel.metadata.folder.removesuffix('.dist-info')}.data", entry.path)
        elif inside and ("/" not in inside or inside.partition("/")[0] not in _SCHEMES):
            yield error("data-folder", f"is in none of the folders {', '.join(_SCHEMES)}", entry.path)
    if entry.head.startswith(POINTER):
        yield error("lfs-pointer", "is a pointer of Git LFS, not the file itself", entry.path)
    elif _LIBRARY.search(entry.path) and not (entry.kind or entry.defect or entry.is_dir or entry.encrypted):
        if not entry.size:
            yield error("library-content", "is an empty file", entry.path)
        elif not entry.head.startswith(_OTHER_LIBRARIES):
            yield error("library-content", f"has no machine code; it begins with {entry.head[:16]!r}", entry.path)


def _check_licences(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    folder, paths = wheel.metadata.folder, {entry.path for entry in wheel.archive.entries}
    # Before metadata 2.4, setuptools and wheel put the files without their folders beside METADATA.
    fixed = _release(wheel.metadata.metadata_version) >= (2, 4)
    for name in wheel.metadata.fields.get("license-file", ()):
        places = [f"{folder}/licenses/{name}"]
        places += [] if fixed else [f"{folder}/{name}", f"{folder}/{name.rpartition('/')[2]}"]
        if paths.isdisjoint(places):
            text = f"names the licence file {name}, and there is no {places[0]}"
            yield Finding("license-file", error_if(fixed or not expected.is_empty), text, f"{folder}/METADATA")


def _release(text: str) -> tuple[int, ...]:
    return parse_release(text) if re.fullmatch(r"\d{1,4}(\.\d{1,4})*", text) else ()


def _check_entry_points(wheel: Wheel) -> Iterator[Finding]:
    content = wheel.metadata.entry_points
    if content is None:
        return
    file = f"{wheel.metadata.folder}/entry_points.txt"
    try:
        groups = ini_of(content.decode(), delimiters="=", unique=True)
    except ValueError as reason:
        yield error("entry-points", f"cannot be read: {reason}", file)
        return
    for group, points in groups.items():
        for name, value in points.items():
            match = _OBJECT.fullmatch(value)
            is_script = group in ("console_scripts", "gui_scripts")
            if match is None or (is_script and not match[2]):
                form = "module:function" if is_script else "module or module:object"
                yield error("entry-points", f"[{group}] {name} = {value!r} is not of the form {form}", file)
            elif is_script and ("/" in name or "\\" in name):
                yield error("entry-points", f"[{group}] {name!r} is not the name of a command", file)
            elif is_script and not _has_module(wheel, match[1]):
                text = f"the command {name} is in the module {match[1]}, which the wheel does not have"
                yield warning("entry-points", text, file)


def _has_module(wheel: Wheel, module: str) -> bool:
    """Whether a module is in the wheel, or of another distribution: the wheel has nothing of its package."""
    path = module.replace(".", "/")
    paths = [installed_path(entry.path) for entry in wheel.archive.entries]
    top = path.partition("/")[0]
    if not any(item.startswith((f"{top}/", f"{top}.")) for item in paths):
        return True
    return any(item.startswith((f"{path}/", f"{path}.")) for item in paths)


def _check_extras(wheel: Wheel) -> Iterator[Finding]:
    known = {canonicalize_name(name) for name in wheel.metadata.fields.get("provides-extra", ())}
    asked = {
        canonicalize_name(name)
        for text in wheel.metadata.requires_dist
        if "extra" in text and (requirement := parse_requirement(text)) and requirement.marker
        for name in re.findall(r"""extra\s*==\s*["']([^"']+)["']""", str(requirement.marker))
    }
    for name in sorted(asked - known):
        text = f"requires something for the extra {name!r}, but has no Provides-Extra: {name}"
        yield warning("extra-undeclared", text, f"{wheel.metadata.folder}/METADATA")


def _check_wheel_version(wheel: Wheel) -> Iterator[Finding]:
    text = wheel.metadata.wheel_version
    if text and _release(text)[:1] != (1,):
        reason = f"Wheel-Version is {text!r}, and installers read 1.x"
        yield error("wheel-version", reason, f"{wheel.metadata.folder}/WHEEL")
