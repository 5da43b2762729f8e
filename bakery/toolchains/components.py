"""Components of CUDA that recipes name: NVIDIA's libraries, from the wheels in the package index.

Most are extras of the metapackage, so their versions are those of the CUDA release. cuDNN, NCCL and a few more are
released on their own: theirs are those that torch pins for that CUDA, unless a recipe says another, ``cudnn==9.*``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from packaging.version import Version

from bakery.plan.dockerfile import Script
from bakery.plan.values import Ref, Value, literal
from bakery.toolchains import facts
from bakery.toolchains.facts.rows import Component

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


def requirements(listed: Sequence[str], major: int) -> tuple[Value, ...]:
    """Return what pip is to install for components of a CUDA major, but for what `tied` says.

    What a component needs of the release is named, too: its own wheel asks for any version of it.
    """
    rows = [(text, row) for text in listed if (row := _row(name(text), major))]
    extras = dict.fromkeys(extra for _, row in rows for extra in row.extras)
    separate = ((text, row) for text, row in rows if row.package and not _is_tied(text, row))
    texts = (
        row.package + (text.removeprefix(row.name) or f"=={[*row.versions.values()][-1]}") for text, row in separate
    )
    return (*((of_release(extras),) if extras else ()), *map(literal, texts))


def tied(listed: Sequence[str], major: int, file: str) -> tuple[Script, ...]:
    """Return the command that writes into ``file`` what else pip is to install: what has a version for each release.

    The same Dockerfile serves all releases of a major, so that the shell chooses; a release that no row knows gets
    the newest version. Nothing is returned where nothing is to be chosen.
    """
    rows = [row for text in listed if (row := _row(name(text), major)) and _is_tied(text, row)]
    if not rows:
        return ()
    minors = [row.version for row in facts.cuda_releases() if row.version.startswith(f"{major}.")]
    pairs = [(release, "\\n".join(f"{row.package}=={row.version_for(release)}" for row in rows)) for release in minors]
    texts = list(dict.fromkeys(text for _, text in pairs))
    lines = ['case "${CUDA_VERSION}." in']
    for text in texts:
        releases = [f"{release}.*" for release, its in pairs if its == text]
        lines.append(f"    {'*' if text == texts[-1] else '|'.join(releases)}) printf '{text}\\n' ;;")
    return (Script("\n".join([*lines, f"esac > {file}"])),)


def _is_tied(text: str, row: Component) -> bool:
    """Whether a component's version is to be chosen by the release: it has several, and the recipe says none."""
    return len(row.versions) > 1 and text == row.name


def lacking(listed: Sequence[str], major: int, release: str = "") -> str:
    """Return what is to be said of the components that do not exist for a CUDA release; empty if all do.

    Args:
        release: the whole release; empty where only its major is known.
    """
    problems = []
    for component in map(name, listed):
        row = _row(component, major)
        if row is None:
            majors = [str(item) for row in facts.components() if row.name == component for item in row.majors]
            problems.append(f"there is no component {component} for CUDA {major}, only for {', '.join(majors)}")
        elif release and row.since and Version(release) < Version(row.since):
            problems.append(f"there is no component {component} for CUDA {release}, only from {row.since} on")
    return "; ".join(problems)


def _row(component: str, major: int) -> Component | None:
    return next((row for row in facts.components() if row.name == component and major in row.majors), None)
