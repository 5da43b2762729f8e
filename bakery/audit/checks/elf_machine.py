"""Is every shared object made for the machine that the tags and the promise name?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.tags import arch_of
from bakery.audit.wheel import Wheel

IDS = {
    "elf-unreadable": "an ELF file is damaged",
    "elf-machine": "a shared object is made for another machine than the wheel's tag or the cell says",
    "elf-foreign": "a shared object in a Linux wheel is a macOS or Windows file",
}
_WIDE = ("x86_64", "aarch64", "ppc64le", "ppc64", "s390x", "riscv64", "loongarch64")
_SHARED = re.compile(r"\.so(\.\d+)*$")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every object that the promised machine cannot load."""
    kinds = {entry.path: entry.kind for entry in wheel.archive.entries}
    for path, reason in wheel.archive.unreadable_objects.items():
        if kinds.get(path) == "elf":
            yield error("elf-unreadable", reason, file=path)
    linux = [tag for tag in wheel.platforms if tag.is_linux]
    if linux:
        for entry in wheel.archive.entries:
            if entry.kind in ("mach-o", "pe") and _SHARED.search(entry.path):
                yield error("elf-foreign", f"is a {entry.kind} file in a Linux wheel", file=entry.path)
    wanted = {tag.arch: tag.text for tag in linux}
    if expected.platform is not None and expected.platform.startswith("linux/"):
        wanted.setdefault(arch_of(expected.platform), expected.platform)
    for found in wheel.objects:
        for arch, source in wanted.items():
            bits = 64 if arch in _WIDE else 32
            if (found.machine, found.elf_class) != (arch, bits):
                yield error(
                    "elf-machine",
                    f"is {found.elf_class}-bit {found.machine}, {source} needs {bits}-bit {arch}",
                    file=found.path,
                    hint="the build ran on another platform's base, or a prebuilt library was copied in",
                )
