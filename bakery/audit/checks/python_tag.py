"""Does the wheel install on the promised Python, and do its extension modules load there?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from packaging.specifiers import SpecifierSet

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error
from bakery.audit.tags import installable_abis
from bakery.audit.wheel import Wheel

IDS = {
    "promised-python": "the wheel does not install on the promised Python",
    "promised-abi3": "the wheel is (or is not) a stable-ABI one, against the promise",
    "extension-abi": "extension modules are made for another Python than the tags say",
}
_STABLE = ("abi3", "abi3t")
_TO_ABI3 = (
    "let the project build for the limited API (scikit-build-core: wheel.py-api, setuptools: py_limited_api), "
    "or remove wheel.abi3 from the recipe"
)
_FLOOR = (
    "wheel.abi3 of the recipe is the lowest Python that the wheel serves: raise it, or let the project build for the "
    "limited API of that one and admit it in requires-python"
)
_EXTENSION = {".so": re.compile(r"\.cpython-(\d+t?)-"), ".pyd": re.compile(r"\.cp(\d+t?)-")}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield what is wrong with the Python side of the tags."""
    if wheel.filename.defect:
        return
    yield from _check_extensions(wheel)
    abis = {tag.abi for tag in wheel.filename.tags}
    stable = not abis.isdisjoint(_STABLE)
    if expected.abi3 is not None and stable is not expected.abi3:
        wanted = "a stable-ABI wheel" if expected.abi3 else "a wheel for one Python only"
        message = f"has ABI tag {', '.join(sorted(abis))}, expected {wanted}"
        yield error("promised-abi3", message, hint=_TO_ABI3 if expected.abi3 else "")
    if expected.python:
        yield from _check_promised(wheel, expected.python, "was it built by another interpreter than the cell's?")
    for python in dict.fromkeys(expected.pythons if stable else ()):
        if python != expected.python:
            yield from _check_promised(wheel, python, _FLOOR)


def _check_promised(wheel: Wheel, python: str, hint: str) -> Iterator[Finding]:
    pairs = {(tag.interpreter, tag.abi) for tag in wheel.filename.tags}
    if pairs.isdisjoint(installable_abis(python)):
        found = ", ".join(sorted(f"{interpreter}-{abi}" for interpreter, abi in pairs))
        yield error(
            "promised-python",
            f"is tagged {found}, which does not install on Python {python}",
            hint=hint,
        )
    requires = wheel.metadata.requires_python
    release = python.removesuffix("t")
    try:
        specifier = SpecifierSet(requires)
        # A bound may name a patch release, so the first and a late one are both tried.
        admits = any(specifier.contains(f"{release}.{patch}", prereleases=True) for patch in (0, 99))
    except ValueError as reason:
        yield error("promised-python", f"Requires-Python cannot be read: {reason}")
        return
    if not admits:
        yield error(
            "promised-python",
            f"Requires-Python is {requires!r}, which refuses Python {python}",
            hint=_FLOOR if hint == _FLOOR else "",
        )


def _check_extensions(wheel: Wheel) -> Iterator[Finding]:
    """Compare the version in ``.cpython-312-….so`` or ``.cp312-….pyd`` with the ABI tags; others load anywhere."""
    paths = (PurePosixPath(entry.path) for entry in wheel.archive.entries if entry.path.endswith(tuple(_EXTENSION)))
    found = {match[1]: str(path) for path in paths if (match := _EXTENSION[path.suffix].search(path.name))}
    wanted = {tag.abi.removeprefix("cp") for tag in wheel.filename.tags if tag.abi.startswith("cp")}
    if found and wanted and wanted.isdisjoint(found):
        yield error(
            "extension-abi",
            f"is made for CPython {', '.join(sorted(found))}, the wheel is tagged for {', '.join(sorted(wanted))}",
            file=min(found.values()),
        )
    stable = any(tag.abi in _STABLE for tag in wheel.filename.tags)
    if found and stable and not wanted:
        yield error(
            "extension-abi",
            "loads in one Python only, but the wheel is tagged for the stable ABI",
            file=min(found.values()),
            hint="name it .abi3.so and build it with Py_LIMITED_API",
        )
