"""The device code that the wheels of a plan must have; the audit checks it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from bakery.core.errors import UsageError
from bakery.plan.model import Plan
from bakery.resolve.rules.subject import RuleSubject, subjects
from bakery.toolchains.facts.archs import ALL, parse

OPEN = frozenset(ALL)
"""Words that CMake and nvcc expand to lists."""


@dataclass(frozen=True, slots=True)
class DevicePromise:
    """The device code that the wheels of a cell must have.

    Attributes:
        cuda: the CUDA release that compiles them.
        archs: exactly these: ``sm_90`` for machine code, ``compute_90`` for PTX. Empty if the recipe has no list.
        folders: folder of the source → the code in it, of a wheel with several native builds.
    """

    cuda: str
    archs: tuple[str, ...]
    folders: Mapping[str, DevicePromise] = field(default_factory=dict)


def device_promises(plan: Plan) -> dict[str, DevicePromise]:
    """Return the device code of each cell, by its id; cells that compile no CUDA are left out."""
    if plan.unmerged:
        single = device_promises(replace(plan.unmerged, unmerged=None))
        folders: dict[str, dict[str, DevicePromise]] = {}
        for build in plan.merged:
            for cell, unmerged in build.cells.items():
                if promise := single.get(unmerged):
                    folders.setdefault(cell, {})[build.folder] = promise
        return {cell: DevicePromise("", (), found) for cell, found in folders.items()}
    return {cell: promise for subject in subjects(plan) if (promise := _promise(subject)) for cell in subject.cells}


def listed_code(subject: RuleSubject) -> dict[str, tuple[str, ...]]:
    """Return variable → the device code that it lists; ``all`` stays a word. Other rules report invalid lists."""
    code_by_variable = {where: (text,) if text in OPEN else device_code(text) for where, text in subject.arch_lists}
    return {where: code for where, code in code_by_variable.items() if code}


def device_code(text: str) -> tuple[str, ...]:
    """Return the device code that a list of architectures asks for; empty for an invalid list, and for ``all``."""
    try:
        archs = parse(text)
    except UsageError:
        return ()
    cubins = [f"sm_{arch.number}" for arch in archs if arch.cubin]
    return (*cubins, *(f"compute_{arch.number}" for arch in archs if arch.ptx))


def torch_list(code: Iterable[str]) -> str:
    """Return the TORCH_CUDA_ARCH_LIST that asks for some device code: ``8.0;9.0+PTX``."""
    kinds: dict[str, set[str]] = {}
    for item in code:
        kind, _, number = item.partition("_")
        kinds.setdefault(re.sub(r"(\d)([a-z]?)\Z", r".\1\2", number), set()).add(kind)
    return ";".join(f"{name}+PTX" if "compute" in found else name for name, found in kinds.items())


def _promise(subject: RuleSubject) -> DevicePromise | None:
    if not (subject.compiler and subject.cuda):
        return None
    # A rule refuses lists that differ.
    code = next(iter(listed_code(subject).values()), ())
    return DevicePromise(subject.cuda, () if OPEN.intersection(code) else code)
