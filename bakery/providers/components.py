"""Components of CUDA that recipes name: NVIDIA's libraries, from the wheels in the package index.

Most are extras of the metapackage, so their versions are those of the CUDA release. cuDNN, NCCL and a few more are
released on their own: a recipe may say which version, ``cudnn==9.*``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from packaging.version import Version

from bakery import facts
from bakery.facts.rows import Component
from bakery.plan import Ref, Value, literal

METAPACKAGE = "cuda-toolkit"
"""NVIDIA's metapackage: one version for each CUDA release, which pins the versions of all components."""

_NAME = re.compile(r"[a-z0-9]*")


def known() -> dict[str, bool]:
    """Return every component's name, and whether a recipe may say its version."""
    return {row.name: bool(row.package) for row in facts.components()}


def name(text: str) -> str:
    """Return the name in a component as a recipe writes it: ``cudnn==9.*`` → ``cudnn``."""
    match = _NAME.match(text)
    return match[0] if match else ""


def of_release(extras: Iterable[str]) -> Value:
    """Return the requirement that selects components of the CUDA release that is asked for."""
    return (f"{METAPACKAGE}[{','.join(extras)}]==", Ref("CUDA_VERSION"))


def requirements(wanted: Sequence[str], major: int) -> tuple[Value, ...]:
    """Return what pip is to install for components of a CUDA major.

    What a component needs of the release is named, too: its own wheel asks for any version of it.
    """
    found = [(text, row) for text in wanted if (row := _row(name(text), major))]
    extras = dict.fromkeys(extra for _, row in found for extra in row.extras)
    own = tuple(literal(row.package + text.removeprefix(row.name)) for text, row in found if row.package)
    return (*((of_release(extras),) if extras else ()), *own)


def lacking(wanted: Sequence[str], major: int, release: str = "") -> str:
    """Return what is to be said of the components that do not exist for a CUDA release; empty if all do.

    Args:
        release: the whole release; empty where only its major is known.
    """
    said = []
    for component in map(name, wanted):
        row = _row(component, major)
        if row is None:
            majors = [str(item) for row in facts.components() if row.name == component for item in row.majors]
            said.append(f"there is no component {component} for CUDA {major}, only for {', '.join(majors)}")
        elif release and row.since and Version(release) < Version(row.since):
            said.append(f"there is no component {component} for CUDA {release}, only from {row.since} on")
    return "; ".join(said)


def _row(component: str, major: int) -> Component | None:
    return next((row for row in facts.components() if row.name == component and major in row.majors), None)
