"""Does the wheel contain no external libraries, and are its search paths portable?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from bakery.audit.binary import Binary
from bakery.audit.dependencies import matches
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, error
from bakery.audit.systems import KNOWN_EXTERNAL
from bakery.audit.wheel import Wheel, is_grafted, original_soname

_ORIGIN = ("$ORIGIN", "${ORIGIN}")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield libraries that must not be in the wheel, with their sizes, and search paths that are not portable.

    Bundled libraries and those that the recipe excludes are errors. A known library in the project's own folder is only
    mentioned: it may be the purpose of the wheel, as for NVIDIA's and torch's.
    """
    for binary in wheel.binaries:
        names = _names(binary)
        excluded = matches(names, expected.excludes)
        if excluded or matches(names, KNOWN_EXTERNAL):
            wrong = excluded or is_grafted(binary.path)
            text = f"contains {names[0]} ({binary.size / 1e6:.1f} MB)"
            hint = "exclude it from the repair and require the package that provides it" if wrong else ""
            yield Finding("bundled-library", Severity.ERROR if wrong else Severity.INFO, text, binary.path, hint)
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
