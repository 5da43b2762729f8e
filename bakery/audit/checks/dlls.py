"""Does every PE file find its libraries on any Windows, and are they those of the cell's Python?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bakery.audit.dependencies import matches
from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, Severity, error, error_if
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
HINTS = {
    "runtime-missing": "let the repair (delvewheel) bundle it, or link it statically",
    "dll-missing": "let the repair (delvewheel) bundle it, or name it in the excludes",
}
_RELEASE = re.compile(r"cp(3[0-9]+)(t?)")


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield every DLL that a Windows without compilers does not find."""
    inside = {entry.path.rpartition("/")[2].lower() for entry in wheel.archive.entries}
    outside = tuple(glob.lower() for glob in (*expected.excludes, *KNOWN_EXTERNAL))
    severity = error_if(not expected.is_empty)
    for image in filter(is_extension_or_dll, wheel.images):
        loaded = frozenset(image.imports)
        for name in dict.fromkeys((*image.imports, *image.delayed)):
            if match := PYTHON_DLL.fullmatch(name):
                yield from _check_python(wheel, image, match)
            elif DEBUG_DLL.fullmatch(name):
                text, hint = f"needs {name}, which only Visual Studio installs", "build in release mode: /MD, not /MDd"
                yield error("debug-runtime", text, image.path, hint)
            elif name.lower() in inside or is_system_library(name) or matches([name.lower()], outside):
                continue
            elif REDISTRIBUTABLE.fullmatch(name):
                yield Finding("runtime-missing", severity, f"needs {name}, which a machine may lack", image.path)
            else:
                # What is looked up when it is first called may be meant to be missing.
                weight = severity if name in loaded else Severity.WARNING
                yield Finding("dll-missing", weight, f"needs {name}, which is not in the wheel", image.path)


def _check_python(wheel: Wheel, image: PeImage, match: re.Match[str]) -> Iterator[Finding]:
    name, release, free_threaded, debug = match[0], match[1], match[2], match[3]
    if debug:
        yield error("debug-runtime", f"needs {name}, a Python for debugging", image.path)
        return
    tags = wheel.filename.tags
    releases = {(m[1], m[2]) for tag in tags if (m := _RELEASE.fullmatch(tag.abi))}
    if release == "3":
        return
    if not releases and any(tag.abi in ("abi3", "abi3t") for tag in tags):
        text = f"needs {name}, so it loads in one Python, but the wheel is tagged for the stable ABI"
        hint = "define Py_LIMITED_API, so that it is linked with python3.dll"
        yield error("python-dll", text, image.path, hint)
    elif releases and (release, free_threaded.lower()) not in releases:
        text = f"needs {name}, the wheel is tagged {', '.join(sorted(map(str, tags)))}"
        yield error("python-dll", text, image.path)
