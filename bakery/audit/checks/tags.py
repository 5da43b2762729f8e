"""Are the tags right for the content, and as the recipe expects?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from packaging.specifiers import SpecifierSet

from bakery.audit.expected_wheel import ExpectedWheel
from bakery.audit.finding import Finding, error, error_if
from bakery.audit.tags import PlatformTag, arch_of, installable_abis, parse_platform, parse_release
from bakery.audit.wheel import Wheel

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
    """Yield what is wrong with the tags."""
    yield from _check_platforms(wheel, expected)
    if wheel.filename.defect:
        return
    yield from _check_extensions(wheel)
    yield from _check_pythons(wheel, expected)
    if wheel.archive.is_read:
        yield from _check_purity(wheel, expected)


def _check_platforms(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    tags, platform = wheel.platforms, expected.platform
    for tag in tags:
        if tag.system == "linux":
            text = f"is tagged {tag.text}, which no index accepts"
            yield Finding("linux-tag", error_if(platform is not None), text)
    # A pure wheel runs everywhere, so also there; whether it may be pure is another check.
    if not tags or any(tag.system == "any" for tag in tags):
        return
    listed = ", ".join(tag.text for tag in tags)
    if platform is not None and not all(tag.is_for(platform) for tag in tags):
        hint = "was it built by another machine's Python than the cell's?"
        if platform.startswith("linux/"):
            hint = "does the base image exist for this platform, or was another one's used?"
        text = f"is tagged {listed}, expected {platform} ({arch_of(platform)})"
        yield error("promised-platform", text, hint=hint)
    for newest in _newest_tags(expected):
        if not any(_installs_under(tag, newest) for tag in tags):
            yield error("promised-plat", f"is tagged {listed}, expected {newest.text} or older")


def _newest_tags(expected: ExpectedWheel) -> Iterator[PlatformTag]:
    if expected.plat is not None:
        yield parse_platform(expected.plat)
    if expected.max_glibc is not None:
        yield PlatformTag(f"glibc {expected.max_glibc}", "manylinux", parse_release(expected.max_glibc))


def _installs_under(tag: PlatformTag, newest: PlatformTag) -> bool:
    """Whether a system that is just new enough for ``newest`` takes a wheel tagged ``tag``."""
    if tag.macos and newest.macos:
        return set(newest.machines) <= set(tag.machines) and tag.macos <= newest.macos
    if tag.libc is None or newest.libc is None:
        return tag.text == newest.text
    return tag.system == newest.system and tag.arch == (newest.arch or tag.arch) and tag.libc <= newest.libc


def _check_pythons(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    abis = {tag.abi for tag in wheel.filename.tags}
    stable = not abis.isdisjoint(_STABLE)
    if expected.abi3 is not None and stable is not expected.abi3:
        kind = "a stable-ABI wheel" if expected.abi3 else "a wheel for one Python only"
        message = f"has ABI tag {', '.join(sorted(abis))}, expected {kind}"
        yield error("promised-abi3", message, hint=_TO_ABI3 if expected.abi3 else "")
    if expected.python:
        hint = "was it built by another interpreter than the cell's?"
        yield from _check_installs(wheel, expected.python, hint, "")
    for python in dict.fromkeys(expected.pythons if stable or expected.abi3 is None else ()):
        if python != expected.python:
            yield from _check_installs(wheel, python, _FLOOR, _FLOOR)


def _check_installs(wheel: Wheel, python: str, tag_hint: str, requires_hint: str) -> Iterator[Finding]:
    pairs = {(tag.interpreter, tag.abi) for tag in wheel.filename.tags}
    if pairs.isdisjoint(installable_abis(python)):
        listed = ", ".join(sorted(f"{interpreter}-{abi}" for interpreter, abi in pairs))
        text = f"is tagged {listed}, which does not install on Python {python}"
        yield error("promised-python", text, hint=tag_hint)
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
        text = f"Requires-Python is {requires!r}, which refuses Python {python}"
        yield error("promised-python", text, hint=requires_hint)


def _check_extensions(wheel: Wheel) -> Iterator[Finding]:
    """Compare the version in ``.cpython-312-….so`` or ``.cp312-….pyd`` with the ABI tags; others load anywhere."""
    paths = (PurePosixPath(entry.path) for entry in wheel.archive.entries if entry.path.endswith(tuple(_EXTENSION)))
    files = {match[1]: str(path) for path in paths if (match := _EXTENSION[path.suffix].search(path.name))}
    tagged = {tag.abi.removeprefix("cp") for tag in wheel.filename.tags if tag.abi.startswith("cp")}
    if files and tagged and tagged.isdisjoint(files):
        text = f"is made for CPython {', '.join(sorted(files))}, the wheel is tagged for {', '.join(sorted(tagged))}"
        yield error("extension-abi", text, min(files.values()))
    if files and not tagged and any(tag.abi in _STABLE for tag in wheel.filename.tags):
        text = "loads in one Python only, but the wheel is tagged for the stable ABI"
        hint = "name it .abi3.so and build it with Py_LIMITED_API"
        yield error("extension-abi", text, min(files.values()), hint)


def _check_purity(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    native = next((binary.path for binary in wheel.native), None)
    portable = any(tag.system == "any" for tag in wheel.platforms)
    if expected.pure is False and not any(entry.kind for entry in wheel.archive.entries):
        text = "has no machine code, but the recipe expects extension modules"
        hint = "an optional extension that failed to build leaves a pure wheel: see the build's log"
        yield error("promised-pure", text, hint=hint)
    if expected.pure is True and (native is not None or not portable):
        yield error("promised-pure", "is not the pure wheel that the recipe expects", native)
    if portable and native is not None:
        text = "is machine code in a wheel tagged for any platform"
        yield Finding("any-tag", error_if(expected.platform is not None), text, native)
    file = f"{wheel.metadata.folder}/WHEEL"
    if not wheel.metadata.folder or file in wheel.metadata.missing:
        return
    purelib = wheel.metadata.root_is_purelib
    if purelib not in ("true", "false"):
        yield error("root-is-purelib", f"Root-Is-Purelib is {purelib!r}, not true or false", file)
    elif purelib == "true" and native is not None:
        # It only matters where purelib and platlib differ; NVIDIA's own wheels do it.
        text = f"Root-Is-Purelib is true, yet {native} is machine code"
        yield Finding("root-is-purelib", error_if(not expected.is_empty), text, file)
