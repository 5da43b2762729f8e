"""Are the tags right for the content, and as the recipe expects?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from packaging.specifiers import SpecifierSet

from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, error, error_if, warning
from wheel_audit.tags import (
    PlatformTag,
    arch_of,
    installable_abis,
    is_for_a_python,
    is_taken,
    parse_platform,
    parse_release,
)
from wheel_audit.wheel import Wheel, starts_module

_STABLE = ("abi3", "abi3t")
_TO_ABI3 = (
    "let the project build for the limited API (scikit-build-core: wheel.py-api, setuptools: py_limited_api), "
    "or remove wheel.abi3 from the recipe"
)
_FLOOR = (
    "wheel.abi3 of the recipe is the lowest Python that the wheel serves: raise it, or let the project build for the "
    "limited API of that one and admit it in requires-python"
)
_EVERY = (
    "with wheel.py3, one wheel serves all Pythons of the matrix: let the project tag it py3-none (scikit-build-core: "
    'wheel.py-api = "py3"), or remove the key'
)
_FOR_ONE = "loads in one Python only, but the wheel is tagged for all of them"
_FOR_ONE_HINT = "let the build backend tag it for its Python; if the module is optional, build a wheel for each Python"
_EXTENSION = {
    ".so": re.compile(r"\.(?:cpython-|(?=pypy\d))(\w+?t?)(?:-pp\d+)?-(\w*)"),
    ".pyd": re.compile(r"\.(?:cp|(?=pp\d))(\d+t?|pp\d+)-()"),
}
"""Suffix → which Python a module is made for, and on Linux which machine: ``.cpython-312-x86_64-linux-gnu.so``,
``.cp312-win_amd64.pyd``, ``.pypy310-pp73-x86_64-linux-gnu.so``."""


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield what is wrong with the tags."""
    yield from _check_platforms(wheel, expected)
    if wheel.filename.defect:
        return
    yield from _check_taken(wheel)
    yield from _check_extensions(wheel, expected)
    if wheel.metadata.requires_python:
        yield from _check_requires_python(wheel)
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


def _check_taken(wheel: Wheel) -> Iterator[Finding]:
    """Yield tags that no installer takes. Lists such as ``cp36.cp37-cp36m.cp37m`` stand for some pairs that are none."""
    untaken = [tag.text for tag in wheel.platforms if not is_taken(tag)]
    if untaken:
        text = f"is tagged {', '.join(untaken)}, which no installer takes"
        yield Finding("tag-refused", error_if(len(untaken) == len(wheel.platforms)), text)
    if not any(map(is_for_a_python, wheel.filename.tags)):
        pairs = sorted({f"{tag.interpreter}-{tag.abi}" for tag in wheel.filename.tags})
        yield error("tag-refused", f"is tagged {', '.join(pairs)}, which no Python takes")


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
            hint = _FLOOR if expected.abi3 else _EVERY
            yield from _check_installs(wheel, python, hint, hint)


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


def _check_extensions(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Compare the version in ``.cpython-312-….so`` or ``.cp312-….pyd`` with the ABI tags; others load anywhere."""
    paths = (PurePosixPath(entry.path) for entry in wheel.archive.entries if entry.path.endswith(tuple(_EXTENSION)))
    found = [(str(path), match) for path in paths if (match := _EXTENSION[path.suffix].search(path.name))]
    files = {match[1]: path for path, match in found}
    abis = {tag.abi for tag in wheel.filename.tags}
    # cp312-none is for one Python, too.
    names = {tag.interpreter if tag.abi == "none" else tag.abi for tag in wheel.filename.tags}
    tagged = {re.sub(r"^cp|_pp\d+$", "", name) for name in names if name.startswith(("cp", "pypy"))}
    if files and tagged:
        for made, path in sorted(files.items()):
            if made not in tagged:
                text = f"is made for {_python(made)}, the wheel is tagged for {', '.join(map(_python, sorted(tagged)))}"
                hint = "" if tagged.isdisjoint(files) else "it is left from another build: build in a clean folder"
                yield error("extension-abi", text, path, hint)
    elif files and not abis.isdisjoint(_STABLE):
        text = "loads in one Python only, but the wheel is tagged for the stable ABI"
        hint = "name it .abi3.so and build it with Py_LIMITED_API"
        yield error("extension-abi", text, min(files.values()), hint)
    elif len(files) == 1 and abis == {"none"}:
        # With modules for several Pythons, each finds its own.
        libraries = {item.path for item in wheel.objects if not starts_module(item)}
        if modules := {path for path, _ in found} - libraries:
            yield Finding("extension-abi", error_if(not expected.is_empty), _FOR_ONE, min(modules), _FOR_ONE_HINT)
    machines = {machine for tag in wheel.platforms if tag.is_linux for machine in tag.machines}
    for path, match in found:
        # Other systems have other words at its place, or none.
        if machines and match[2] in _MACHINES and match[2] not in machines:
            text = f"has a name for {match[2]}, which Python on {', '.join(sorted(machines))} does not look for"
            yield error("extension-abi", text, path)


_MACHINES = ("x86_64", "aarch64", "i686", "armv7l", "ppc64le", "s390x", "riscv64")


def _python(made: str) -> str:
    return f"CPython {made}" if made[0].isdigit() else made


def _check_requires_python(wheel: Wheel) -> Iterator[Finding]:
    """Yield whether Requires-Python refuses every Python that the tags are for."""
    requires = wheel.metadata.requires_python
    try:
        specifier = SpecifierSet(requires)
        pythons = [f"3.{minor}{t}" for minor in range(2, 40) for t in ("", "t")[: 1 + (minor > 12)]]
        pairs = {(tag.interpreter, tag.abi) for tag in wheel.filename.tags}
        takers = [item for item in pythons if not pairs.isdisjoint(installable_abis(item))]
        admits = any(specifier.contains(f"{item.rstrip('t')}.{patch}") for item in takers for patch in (0, 99))
    except ValueError:
        return
    if takers and not admits:
        tags = ", ".join(sorted(map(str, wheel.filename.tags)))
        text = f"Requires-Python is {requires!r}, which refuses every Python that the tags are for: {tags}"
        yield error("requires-python", text, f"{wheel.metadata.folder}/METADATA")


def _check_purity(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    native = next((binary.path for binary in wheel.native), None)
    portable = any(tag.system == "any" for tag in wheel.platforms)
    has_code = any(entry.kind for entry in wheel.archive.entries)
    if not (portable or has_code):
        tags = ", ".join(tag.text for tag in wheel.platforms)
        yield warning("no-machine-code", f"is tagged for a machine, and has no machine code: {tags}")
    if expected.pure is False and not has_code:
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
