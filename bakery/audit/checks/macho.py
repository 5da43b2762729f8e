"""Does every Mach-O file run on the machines and the macOS that the tags and the promise name?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.macho import MachObject, Slice
from bakery.audit.tags import Release, arch_of, release_text
from bakery.audit.wheel import Wheel

IDS = {
    "macho-unreadable": "a Mach-O file is damaged",
    "macho-machine": "a module or library lacks code for a machine that the wheel's tag or the cell names",
    "macho-system": "a Mach-O file is made for another system than macOS",
    "macho-foreign": "a module or library in a wheel for macOS is a Linux or Windows file",
    "macho-unsigned": "code for arm64 has no signature, and macOS ends whatever loads it",
    "macos-floor": "a Mach-O file needs a newer macOS than the tag says",
}
_FIRST_ARM = (11, 0)
"""The oldest macOS on arm64: a universal file's code for it is always that new."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every file that some machine of the tags cannot load."""
    kinds = {entry.path: entry.kind for entry in wheel.archive.entries}
    for path, reason in wheel.archive.unreadable_objects.items():
        if kinds.get(path) == "mach-o":
            yield error("macho-unreadable", reason, file=path)
    tags = [tag for tag in wheel.platforms if tag.system == "macos"]
    wanted = {machine: tag.text for tag in tags for machine in tag.machines}
    if expected.platform and expected.platform.startswith("macos/"):
        wanted.setdefault(arch_of(expected.platform), expected.platform)
    if wanted:
        for path, kind in kinds.items():
            if kind in ("elf", "pe") and path.endswith((".so", ".dylib")):
                yield error("macho-foreign", f"is a file of {'Linux' if kind == 'elf' else 'Windows'}", file=path)
    floors = {
        machine: min(tag.macos for tag in tags if tag.macos and machine in tag.machines)
        for tag in tags
        for machine in tag.machines
    }
    for found in wheel.mach_objects:
        yield from _check_machines(found, wanted)
        for part in found.slices:
            yield from _check_slice(found, part, floors if wanted else {})


def _check_machines(found: MachObject, wanted: Mapping[str, str]) -> Iterator[Finding]:
    # Programs for another machine may be data, or run under Rosetta.
    if all(part.kind == "program" for part in found.slices):
        return
    for machine, source in wanted.items():
        if machine not in found.machines:
            yield error(
                "macho-machine",
                f"is for {' and '.join(found.machines)}, {source} needs {machine}",
                file=found.path,
                hint="set ARCHFLAGS or CMAKE_OSX_ARCHITECTURES for the machine, or build on it",
            )


def _check_slice(found: MachObject, part: Slice, floors: Mapping[str, Release]) -> Iterator[Finding]:
    if floors and part.system not in ("macos", ""):
        yield error("macho-system", f"is for {part.system}", file=found.path)
    if part.machine == "arm64" and not part.signed:
        yield error(
            "macho-unsigned",
            "its code for arm64 has no signature",
            file=found.path,
            hint="sign it after the last change: codesign --force --sign - FILE; delocate does so",
        )
    floor = floors.get(part.machine)
    if floor and part.machine == "arm64":
        floor = max(floor, _FIRST_ARM)
    if floor and part.floor and part.floor > floor:
        yield error(
            "macos-floor",
            f"needs macOS {release_text(part.floor)} on {part.machine}, the tag says {release_text(floor)}",
            file=found.path,
            hint="compile everything with one MACOSX_DEPLOYMENT_TARGET (macos.minimum in the recipe), libraries too",
        )
