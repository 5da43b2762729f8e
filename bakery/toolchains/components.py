"""Components: CUDA libraries in recipes, from NVIDIA's wheels in the package index.

Most are extras of the metapackage and have the version of the CUDA release. cuDNN, NCCL and a few more have their own
releases: by default the version that torch pins for that CUDA release, or that of the recipe, ``cudnn==9.*``.
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
    """Return the names of all components, and whether a recipe may set their version."""
    return {row.name: bool(row.package) for row in facts.components()}


def name(text: str) -> str:
    """Return the name of a component of a recipe: ``cudnn==9.*`` → ``cudnn``."""
    match = _NAME.match(text)
    return match[0] if match else ""


def of_release(extras: Iterable[str]) -> Value:
    """Return the requirement for components of the release CUDA_VERSION."""
    return (f"{METAPACKAGE}[{','.join(extras)}]==", Ref("CUDA_VERSION"))


def requirements(listed: Sequence[str], major: int) -> tuple[Value, ...]:
    """Return the requirements of components for a CUDA major, without those of `tied`.

    They include the dependencies of components on the release, since the wheels accept any version of these.
    """
    rows = [(text, row) for text in listed if (row := _row(name(text), major))]
    extras = dict.fromkeys(extra for _, row in rows for extra in row.extras)
    separate = ((text, row) for text, row in rows if row.package and not _is_tied(text, row))
    texts = (
        row.package + (text.removeprefix(row.name) or f"=={[*row.versions.values()][-1]}") for text, row in separate
    )
    return (*((of_release(extras),) if extras else ()), *map(literal, texts))


def bounds(listed: Sequence[str], cuda: str) -> tuple[str, ...]:
    """Return what users need who run libraries that were built with CUDA's runtime and components of a release: it or newer ones.

    NVIDIA's libraries take over for older ones of their own major, and for no other.
    """
    major, minor = cuda.split(".")[:2]
    rows = [(text, row) for text in listed if (row := _row(name(text), int(major)))]
    extras = dict.fromkeys(("cudart", *(extra for _, row in rows for extra in row.extras)))
    floors = ((text, row, row.version_for(f"{major}.{minor}")) for text, row in rows if row.package)
    return (
        f"{METAPACKAGE}[{','.join(extras)}]>={major}.{minor},<{int(major) + 1}",
        *(
            row.package + (text.removeprefix(row.name) or f">={floor},<{int(floor.partition('.')[0]) + 1}")
            for text, row, floor in floors
        ),
    )


def tied(listed: Sequence[str], major: int, file: str) -> tuple[Script, ...]:
    """Return the command that writes the other requirements, whose version depends on the release, into ``file``.

    The same Dockerfile serves all releases of a major, so the shell chooses; unknown releases get the newest version.
    """
    rows = [row for text in listed if (row := _row(name(text), major)) and _is_tied(text, row)]
    if not rows:
        return ()
    minors = [row.version for row in facts.cuda_releases() if row.version.startswith(f"{major}.")]
    pairs = [(release, "\\n".join(f"{row.package}=={row.version_for(release)}" for row in rows)) for release in minors]
    texts = list(dict.fromkeys(text for _, text in pairs))
    lines = ['case "${CUDA_VERSION}." in']
    for text in texts:
        releases = [f"{release}.*" for release, listed_text in pairs if listed_text == text]
        lines.append(f"    {'*' if text == texts[-1] else '|'.join(releases)}) printf '{text}\\n' ;;")
    return (Script("\n".join([*lines, f"esac > {file}"])),)


def _is_tied(text: str, row: Component) -> bool:
    """Whether the version depends on the release: there are several, and the recipe sets none."""
    return len(row.versions) > 1 and text == row.name


def lacking(listed: Sequence[str], major: int, release: str = "") -> str:
    """Return a message about components that do not exist for a CUDA release, or for a major; empty if all exist."""
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
