"""Does a wheel that is linked with torch require the releases that have what it calls?

torch's C++ interface changes with each minor release; its stable ABI, C functions named ``aoti_torch_`` and ``torch_``,
only grows: https://docs.pytorch.org/docs/stable/notes/libtorch_stable_abi.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from wheel_audit import torch_abi
from wheel_audit.dependencies import matches
from wheel_audit.expected_wheel import ExpectedWheel
from wheel_audit.finding import Finding, error, error_if, warning
from wheel_audit.requirements import requirements_for
from wheel_audit.symbols import CxxAbi, cxx_abi
from wheel_audit.systems import TORCH
from wheel_audit.text import listed
from wheel_audit.wheel import Wheel

_NEW_STRING = "7__cxx11"
_OLD_STRING = re.compile(r"RKSs|ESs$")
_NEW_SINCE = Version("2.7")
"""Since then all wheels of torch have ABI 1; before, those on PyPI had 0 (pytorch's release notes of 2.6 and 2.7)."""
_ABI = {"cxx11": "1", "old": "0", "mixed": "0 and 1"}


def check(wheel: Wheel, expected: ExpectedWheel) -> Iterator[Finding]:
    """Yield defects of the requirement, calls outside the promised ABI, and objects with the wrong C++ ABI."""
    calls = _calls(wheel) if expected.torch_abi or matches(wheel.external, TORCH) else {}
    if expected.torch_abi:
        yield from _check_promise(calls, Version(expected.torch_abi))
    linked = next((name for name in wheel.external if matches([name], TORCH)), None)
    if linked is None or not wheel.metadata.folder:
        return
    pins = requirements_for(wheel.metadata.requires_dist, "torch")
    yield from _check_pin(linked, pins, wheel, expected, calls)
    torch = expected.cxx_abi or _abi_by(pins)
    for path, names in calls.items():
        abi = _abi_of(list(filter(torch_abi.is_cxx, names)))
        if torch and abi not in ("", torch):
            text = f"calls torch with _GLIBCXX_USE_CXX11_ABI={_ABI[abi]}; the torch it is for has {_ABI[torch]}"
            yield error("framework-abi", text, path)


def _calls(wheel: Wheel) -> dict[str, list[str]]:
    """Return the undefined symbols of each object that no object of the wheel defines."""
    wanted = {hash(name): name for binary in wheel.objects for name in binary.symbols.undefined}
    inside = frozenset[str]().union(*(binary.symbols.provides(wanted) for binary in wheel.objects))
    return {binary.path: [name for name in binary.symbols.undefined if name not in inside] for binary in wheel.objects}


def _check_promise(calls: Mapping[str, list[str]], floor: Version) -> Iterator[Finding]:
    for path, names in calls.items():
        for name in sorted(filter(torch_abi.is_unstable, names)):
            yield error("promised-torch-abi", f"uses {name}, which is not in torch's stable ABI", path)
        for name, release in sorted(torch_abi.needed(names).items()):
            if release > floor:
                text = f"uses {name}, which torch has since {release}; the recipe promises {floor}"
                yield error("promised-torch-abi", text, path)


def _check_pin(
    linked: str, pins: list[Requirement], wheel: Wheel, expected: ExpectedWheel, calls: Mapping[str, list[str]]
) -> Iterator[Finding]:
    # Wheels of other projects may leave it to the user to install the right torch.
    severity = error_if(not expected.is_empty)
    file = f"{wheel.metadata.folder}/METADATA"
    names = [name for found in calls.values() for name in found]
    needed = torch_abi.needed(names)
    newest = max(needed.values(), default=Version("0"))
    if not pins:
        text = f"needs {linked}, but does not require torch"
        yield Finding("framework-pin", severity, text, file, _promised_pin(expected))
    elif not expected.torch_abi and any(map(torch_abi.is_cxx, names)) and _takes_several(pins):
        text = f"calls torch's C++ interface, but accepts several releases: {', '.join(map(str, pins))}"
        yield Finding("framework-pin", severity, text, file, _promised_pin(expected))
    elif not any(item.specifier or item.url for item in pins):
        text = f"needs {linked}, but METADATA accepts any torch"
        hint = (
            f"require torch>={newest}, which has all that it calls"
            if needed
            else "require at least the release it was built with"
        )
        yield warning("framework-pin", text, file, hint)
    elif older := [item for item in torch_abi.releases() if item < newest and _takes(pins, item)]:
        latest = [name for name, release in needed.items() if release == newest]
        text = f"calls {listed(sorted(latest))}, which torch has since {newest}, but accepts torch {older[0]}"
        yield Finding("framework-pin", severity, text, file, f"require torch>={newest}")


def _promised_pin(expected: ExpectedWheel) -> str:
    """Return the advice to require the release that the recipe builds with; empty if that is not known."""
    pins = requirements_for(expected.requires, "torch")
    reason = "" if expected.torch_abi else ": torch's C++ interface changes with each minor release"
    return f"require {pins[0]}{reason}" if pins else ""


def _takes(pins: list[Requirement], release: Version) -> bool:
    """Whether all ``pins`` without a marker accept a release, or one of its patches."""
    patches = [f"{release}.{patch}" for patch in range(10)]
    specifiers = [item.specifier for item in pins if item.marker is None and not item.url]
    return bool(specifiers) and any(all(item.contains(patch) for item in specifiers) for patch in patches)


def _takes_several(pins: list[Requirement]) -> bool:
    """Whether releases of more than one minor are accepted; one pin with a marker can limit it to one."""
    always = SpecifierSet(",".join(str(item.specifier) for item in pins if item.marker is None))
    return all(not item.url and len(_minors(always & item.specifier)) > 1 for item in pins)


def _minors(specifier: SpecifierSet) -> set[tuple[int, int]]:
    """Return minors that a specifier accepts: of its bounds, their neighbours, the first and the last possible ones."""
    bounds = [Version(bound.version.removesuffix(".*")) for bound in specifier if bound.operator != "==="]
    beside = {(bound.major, bound.minor + step) for bound in bounds for step in (-1, 0, 1) if bound.minor + step >= 0}
    minors = {(0, 0), (9999, 0), *beside, *((bound.major + 1, 0) for bound in bounds)}
    minors |= {(bound.major - 1, 99) for bound in bounds if bound.major}
    releases = [*bounds, *(Version(f"{major}.{minor}.{patch}") for major, minor in minors for patch in (0, 99))]
    return {(item.major, item.minor) for item in releases if specifier.contains(item, prereleases=True)}


def _abi_of(names: list[str]) -> CxxAbi:
    """Return the ABI of the strings in calls of torch."""
    return cxx_abi(new=any(_NEW_STRING in name for name in names), old=any(map(_OLD_STRING.search, names)))


def _abi_by(pins: Iterable[Requirement]) -> CxxAbi:
    """Return the ABI of all torch releases that ``pins`` accept; empty if unknown."""
    lowest = [
        Version(bound.version.removesuffix(".*"))
        for pin in pins
        for bound in pin.specifier
        if bound.operator in ("==", ">=", "~=", ">")
    ]
    return "cxx11" if lowest and max(lowest) >= _NEW_SINCE else ""
