"""Is the machine code for the machines and systems of the tags and the recipe?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bakery.audit.binary import Binary
from bakery.audit.elf import SharedObject
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.macho import MachObject
from bakery.audit.pe import PeImage
from bakery.audit.tags import arch_of
from bakery.audit.wheel import Wheel, is_extension_or_dll

_WIDE = ("x86_64", "aarch64", "ppc64le", "ppc64", "s390x", "riscv64", "loongarch64")
_SYSTEMS = {"elf": "Linux", "mach-o": "macOS", "pe": "Windows"}


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
    """Yield the files that a machine of the tags cannot load."""
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
    for binary in wheel.binaries:
        built_for = _built_for(binary) if isinstance(binary, item.type) else ()
        for machine, source in machines.items():
            needed = f"{64 if machine in _WIDE else 32}-bit {machine}" if item.kind == "elf" else machine
            if built_for and needed not in built_for:
                text = f"is for {' and '.join(built_for)}, {source} needs {needed}"
                yield error(f"{item.id}-machine", text, binary.path)


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
