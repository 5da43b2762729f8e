"""Do the search paths inside shared objects hold on any machine?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from bakery.audit.elf import SharedObject
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.wheel import Wheel

IDS = {
    "rpath-absolute": "a shared object searches libraries in a folder of the build machine or outside the installation",
}
_ORIGIN = ("$ORIGIN", "${ORIGIN}")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every search path that is not below the folder wheels are unpacked into."""
    for found in wheel.objects:
        for kind, paths in (("RPATH", found.rpath), ("RUNPATH", found.runpath)):
            for path in (paths or "").split(":") if paths else ():
                if reason := _defect(found, path):
                    yield error(
                        "rpath-absolute",
                        f"its {kind} has {path!r}, which is {reason}",
                        file=found.path,
                        hint="use $ORIGIN, or remove it with `patchelf --remove-rpath`",
                    )


def _defect(found: SharedObject, path: str) -> str:
    origin = next((name for name in _ORIGIN if path == name or path.startswith(name + "/")), None)
    if origin is None:
        # An empty or relative one is looked up from wherever the program was started.
        return "absolute" if path.startswith("/") else "relative to the current folder"
    # Another project's folder beside the wheel's own is fine: NVIDIA's libraries are found so.
    depth = len(PurePosixPath(found.path).parts) - 1
    for part in path.removeprefix(origin).split("/"):
        depth += {"..": -1, "": 0, ".": 0}.get(part, 1)
        if depth < 0:
            return "outside the folder that wheels are unpacked into"
    return ""
