"""Does every PE file find its libraries on any Windows, and are they those of the promised Python?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, error
from bakery.audit.pe import PeImage
from bakery.audit.systems import DEBUG_DLL, PYTHON_DLL, REDISTRIBUTABLE, is_system_library
from bakery.audit.tags import KNOWN_EXTERNAL
from bakery.audit.wheel import Wheel, is_extension_or_dll

IDS = {
    "debug-runtime": "a module or DLL needs a runtime for debugging, which only developers have",
    "runtime-missing": "a module or DLL needs a runtime of Visual C++ that neither Windows nor Python brings",
    "dll-missing": "a module or DLL needs a DLL that is neither in the wheel nor part of Windows, and nothing excludes it",
    "python-dll": "a module is linked with another Python's library than the tags say",
}
_RELEASE = re.compile(r"cp(3[0-9]+)(t?)")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every DLL that a Windows without compilers does not find."""
    inside = {entry.path.rpartition("/")[2].lower() for entry in wheel.archive.entries}
    outside = tuple(glob.lower() for glob in (*expected.excludes, *KNOWN_EXTERNAL))
    severity = Severity.WARNING if expected.is_empty else Severity.ERROR
    for found in filter(is_extension_or_dll, wheel.images):
        loaded = set(found.imports)
        for name in dict.fromkeys((*found.imports, *found.delayed)):
            if match := PYTHON_DLL.fullmatch(name):
                yield from _check_python(wheel, found, name, match)
            elif DEBUG_DLL.fullmatch(name):
                yield error(
                    "debug-runtime",
                    f"needs {name}, which only Visual Studio installs",
                    file=found.path,
                    hint="build in release mode: /MD, not /MDd",
                )
            elif not _is_there(name, inside, outside):
                yield _missing(found, name, severity if name in loaded else Severity.WARNING, severity)


def _is_there(name: str, inside: set[str], outside: tuple[str, ...]) -> bool:
    lower = name.lower()
    return lower in inside or is_system_library(name) or any(fnmatchcase(lower, glob) for glob in outside)


def _missing(found: PeImage, name: str, weight: Severity, severity: Severity) -> Finding:
    """Return the finding; what is looked up when it is first called may be meant to be missing."""
    if REDISTRIBUTABLE.fullmatch(name):
        return Finding(
            "runtime-missing",
            severity,
            f"needs {name}, which a machine may lack",
            found.path,
            "let the repair (delvewheel) bundle it, or link it statically",
        )
    text = "let the repair (delvewheel) bundle it, or name it in the excludes"
    return Finding("dll-missing", weight, f"needs {name}, which is not in the wheel", found.path, text)


def _check_python(wheel: Wheel, found: PeImage, name: str, match: re.Match[str]) -> Iterator[Finding]:
    release, free, debug = match[1], match[2], match[3]
    if debug:
        yield error("debug-runtime", f"needs {name}, a Python for debugging", file=found.path)
        return
    tags = wheel.filename.tags
    stable = any(tag.abi in ("abi3", "abi3t") for tag in tags)
    wanted = {(m[1], m[2]) for tag in tags if (m := _RELEASE.fullmatch(tag.abi))}
    if release == "3":
        return
    if stable and not wanted:
        yield error(
            "python-dll",
            f"needs {name}, so it loads in one Python, but the wheel is tagged for the stable ABI",
            file=found.path,
            hint="define Py_LIMITED_API, so that it is linked with python3.dll",
        )
    elif wanted and (release, free.lower()) not in wanted:
        yield error(
            "python-dll", f"needs {name}, the wheel is tagged {', '.join(sorted(map(str, tags)))}", file=found.path
        )
