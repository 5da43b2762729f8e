"""Is the machine code for the machines, systems and oldest releases of the tags and the recipe?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from wheel_audit.binary import Binary
from wheel_audit.elf import SharedObject
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, error, error_if
from wheel_audit.macho import MachObject
from wheel_audit.pe import PeImage
from wheel_audit.systems import newest_glibcxx
from wheel_audit.tags import Release, arch_of, parse_release, release_text
from wheel_audit.wheel import Wheel, is_extension_or_dll, is_grafted, starts_module

_MODULE = re.compile(r"\.(?:(?:cpython-|pypy|abi3)[^/]*\.so|abi3\.so|pyd)$", re.IGNORECASE)
_WIDE = ("x86_64", "aarch64", "ppc64le", "ppc64", "s390x", "riscv64", "loongarch64")
_SYSTEMS = {"elf": "Linux", "mach-o": "macOS", "pe": "Windows"}
_FIRST_ARM = (11, 0)
"""The first macOS for arm64: code for it in a universal file never runs on older ones."""
_NEWEST_WINDOWS = (10, 0)
"""The version of Windows 10 and 11: files that need a newer one are not loaded."""


@dataclass(frozen=True, slots=True)
class _Format:
    type: type
    kind: str
    id: str
    platform: str
    loaded: re.Pattern[str]


_FORMATS = (
    _Format(SharedObject, "elf", "elf", "linux/", re.compile(r"\.so(\.\d+)*$")),
    _Format(MachObject, "mach-o", "macho", "macos/", re.compile(r"\.(so|dylib)$")),
    _Format(PeImage, "pe", "pe", "windows/", re.compile(r"\.(pyd|dll)$", re.IGNORECASE)),
)
"""The files that each system loads, by their first bytes and names."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield the files that a machine or system of the tags cannot load."""
    yield from _check_machines(wheel, expected)
    yield from _check_floors(wheel, expected)


def _check_machines(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    kinds = {entry.path: entry.kind for entry in wheel.archive.entries}
    for item in _FORMATS:
        for path, reason in wheel.archive.unreadable_objects.items():
            if kinds.get(path) == item.kind:
                yield error(f"{item.id}-unreadable", reason, path)
        machines = _machines(wheel, expected, item.platform)
        for path, kind in kinds.items():
            if machines and kind not in ("", item.kind) and item.loaded.search(path):
                yield error(f"{item.id}-foreign", f"is a file of {_SYSTEMS[kind]}", path)
        yield from _check_objects(wheel, item, machines)
    for binary in wheel.mach_objects:
        for part in binary.slices:
            if part.system not in ("macos", "") and _machines(wheel, expected, "macos/"):
                yield error("macho-system", f"is for {part.system}", binary.path)
            if part.machine == "arm64" and not part.signed:
                yield error("macho-unsigned", "its code for arm64 has no signature", binary.path)


def _machines(wheel: Wheel, expected: ExpectedWheel, platform: str) -> dict[str, str]:
    """Return machine → source, for the machines of one system that the wheel must run on."""
    tags = [tag for tag in wheel.platforms if ("linux" if tag.is_linux else tag.system) + "/" == platform]
    machines = {machine: tag.text for tag in tags for machine in tag.machines}
    if expected.platform and expected.platform.startswith(platform):
        machines.setdefault(arch_of(expected.platform), expected.platform)
    return machines


def _check_objects(wheel: Wheel, item: _Format, machines: dict[str, str]) -> Iterator[Finding]:
    built = {binary.path: _built_for(binary) for binary in wheel.binaries if isinstance(binary, item.type)}
    loaded = _loaded(wheel)
    for machine, source in machines.items():
        needed = f"{64 if machine in _WIDE else 32}-bit {machine}" if item.kind == "elf" else machine
        has_right = any(needed in built_for for built_for in built.values())
        for path, built_for in built.items():
            if built_for and needed not in built_for:
                text = f"is for {' and '.join(built_for)}, {source} needs {needed}"
                # A debugger has helpers for the machines of other processes.
                severity = error_if(path in loaded or not has_right)
                yield Finding(f"{item.id}-machine", severity, text, path)


def _loaded(wheel: Wheel) -> set[str]:
    """Return the paths of what Python certainly loads: its modules, bundled libraries, and what these need."""
    named = {binary.file_name.lower(): binary for binary in wheel.binaries}
    found = [binary for binary in wheel.binaries if _is_module(binary) or is_grafted(binary.path)]
    paths = {binary.path for binary in found}
    while found:
        for name in _needs(found.pop()):
            other = named.get(name.rpartition("/")[2].lower())
            if other and other.path not in paths:
                paths.add(other.path)
                found.append(other)
    return paths


def _is_module(binary: Binary) -> bool:
    return bool(_MODULE.search(binary.path)) or (isinstance(binary, SharedObject) and starts_module(binary))


def _needs(binary: Binary) -> Iterable[str]:
    if isinstance(binary, MachObject):
        return [name for part in binary.slices for name in part.needed]
    if isinstance(binary, PeImage):
        return (*binary.imports, *binary.delayed)
    return binary.needed if isinstance(binary, SharedObject) else ()


def _built_for(binary: Binary) -> tuple[str, ...]:
    """Return the machines that a file is for; empty for any machine."""
    if isinstance(binary, SharedObject):
        return (f"{binary.elf_class}-bit {binary.machine}",)
    if isinstance(binary, MachObject):
        # Programs for another machine may be data, or run under Rosetta.
        return () if all(part.kind == "program" for part in binary.slices) else binary.machines
    if isinstance(binary, PeImage) and is_extension_or_dll(binary):
        # .NET code is for any machine, and arm64ec runs as either.
        return () if binary.managed or binary.machine == "arm64ec" else (binary.machine,)
    return ()


def _check_floors(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
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
    # CentOS 7's glibc has symbols of 2.18 on aarch64, which auditwheel's policy allows.
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
                # No tag says 13.3: onnx's wheels that need it are tagged 13.0.
                untold = part.floor[0] == floor[0] and floor >= _FIRST_ARM
                yield Finding("macos-floor", error_if(not untold), text, binary.path)
