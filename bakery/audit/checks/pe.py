"""Is every PE file made for the machine and a Windows that the tags and the promise name?"""

from __future__ import annotations

from collections.abc import Iterator

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.tags import arch_of, release_text
from bakery.audit.wheel import Wheel, is_extension_or_dll

IDS = {
    "pe-unreadable": "a PE file is damaged",
    "pe-machine": "a module or DLL is made for another machine than the wheel's tag or the cell says",
    "pe-foreign": "a module or DLL in a wheel for Windows is a Linux or macOS file",
    "windows-floor": "a module or DLL refuses every Windows that Python runs on",
}
_NEWEST = (10, 0)
"""What Windows 10 and 11 call themselves: a file that asks for more is loaded by neither."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every module and DLL that the promised machine cannot load."""
    kinds = {entry.path: entry.kind for entry in wheel.archive.entries}
    for path, reason in wheel.archive.unreadable_objects.items():
        if kinds.get(path) == "pe":
            yield error("pe-unreadable", reason, file=path)
    wanted = {tag.arch: tag.text for tag in wheel.platforms if tag.system == "windows"}
    if expected.platform and expected.platform.startswith("windows/"):
        wanted.setdefault(arch_of(expected.platform), expected.platform)
    if wanted:
        for path, kind in kinds.items():
            if kind in ("elf", "mach-o") and path.lower().endswith((".pyd", ".dll")):
                yield error("pe-foreign", f"is a file of {'Linux' if kind == 'elf' else 'macOS'}", file=path)
    for found in filter(is_extension_or_dll, wheel.images):
        for machine, source in wanted.items():
            # .NET code is for any machine, and arm64ec runs as either.
            if not found.managed and found.machine not in (machine, "arm64ec"):
                yield error(
                    "pe-machine",
                    f"is for {found.machine}, {source} needs {machine}",
                    file=found.path,
                    hint="was another machine's compiler or Python used, or a prebuilt DLL copied in?",
                )
        if found.floor > _NEWEST:
            yield error("windows-floor", f"needs Windows {release_text(found.floor)}", file=found.path)
