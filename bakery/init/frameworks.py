"""Which framework and which CUDA a project is built with, and their releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from bakery.init.findings import Place, requirement_name
from bakery.init.project import Project
from bakery.toolchains import facts

LONGEST_SPECIFIER = 500
"""Characters of a version specifier that is read."""

Choose = Callable[[str, Sequence[str]], str]
"""Asks which of some values is meant; where nobody can be asked, it returns the first."""

CUDA = {"11": "11.8.0", "12": "12.4.1", "13": "13.0.3"}
"""CUDA major → the release that a new recipe names."""

_INCLUDES = {
    "cublas": ("cublas",),
    "cudnn": ("cudnn",),
    "cufft": ("cufft",),
    "curand": ("curand",),
    "cusolver": ("cusolver",),
    "cusparse": ("cusparse.h",),
    "nccl": ("nccl.h",),
    "nvrtc": ("nvrtc.h",),
    "nvml": ("nvml.h",),
    "npp": ("npp.h", "nppi"),
    "nvjpeg": ("nvjpeg.h",),
}


@dataclass(frozen=True)
class Device:
    """What a project needs beside C++.

    Attributes:
        framework: ``torch``, ``jax`` or empty.
        framework_place: what shows it.
        releases: its releases, newest first if the project does not choose.
        is_guess: the project does not name the releases.
        pythons: the Pythons that they support; empty for any.
        cuda: the releases of CUDA; empty if the project has no code for it.
        components: libraries of CUDA → their places.
    """

    framework: str = ""
    framework_place: Place | None = None
    releases: tuple[str, ...] = ()
    is_guess: bool = True
    pythons: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()
    cuda_place: Place | None = None
    cuda_is_guess: bool = True
    components: tuple[tuple[str, Place], ...] = ()


def find_device(project: Project, choose: Choose) -> Device:
    """Return the framework and the CUDA that a project is built with."""
    cuda_place = _cuda_place(project)
    places = {name: place for name, place in (("torch", _torch_place(project)), ("jax", _jax_place(project))) if place}
    framework = next(iter(places), "")
    if len(places) > 1:
        question = (
            f"The project uses torch ({places['torch']}) and JAX ({places['jax']}). Which one is the wheel built for?"
        )
        framework = choose(question, tuple(places))
    releases, is_guess, pythons, cuda_minor = _releases(project, framework, needs_cuda=cuda_place is not None)
    cuda, cuda_is_guess = _cuda_releases(project, cuda_minor) if cuda_place else ((), True)
    return Device(
        framework=framework,
        framework_place=places.get(framework),
        releases=releases,
        is_guess=is_guess,
        pythons=pythons,
        cuda=cuda,
        cuda_place=cuda_place,
        cuda_is_guess=cuda_is_guess,
        components=_components(project, framework) if cuda_place else (),
    )


def _cuda_place(project: Project) -> Place | None:
    setup = project.metadata.setup
    in_setup = setup.extensions.get("CUDAExtension") if setup else None
    if in_setup or (found := project.language("cuda")) is None:
        return in_setup
    return found


def _torch_place(project: Project) -> Place | None:
    setup = project.metadata.setup
    needed = project.metadata.needs("torch")
    found = (
        setup.imports.get("torch") if setup else None,
        project.cmake.packages.get("Torch"),
        needed.place if needed else None,
        project.sources.includes("torch/", "ATen/", "c10/"),
    )
    return next((place for place in found if place), None)


def _jax_place(project: Project) -> Place | None:
    return project.sources.includes("xla/ffi/")


def _constraint(project: Project, *names: str) -> SpecifierSet:
    """Return which releases the project requires of one of some distributions."""
    metadata = project.metadata
    specifiers = SpecifierSet()
    for fact in (*metadata.requires, *metadata.pyproject.facts("project", "dependencies")):
        if requirement_name(fact.text) in names and len(fact.text) <= LONGEST_SPECIFIER:
            try:
                specifiers &= Requirement(fact.text).specifier
            except InvalidRequirement:
                continue
    return specifiers


def _releases(
    project: Project, framework: str, *, needs_cuda: bool
) -> tuple[tuple[str, ...], bool, tuple[str, ...], str]:
    """Return the releases of a framework, whether they are a guess, their Pythons, and the CUDA they are built for."""
    if not framework:
        return (), True, (), ""
    carried = project.bake_file.axes.get(framework) if project.bake_file else None
    if carried:
        row = facts.torch_release(carried[0][0]) if framework == "torch" else None
        return carried[0], False, row.pythons if row else (), row.cuda if row else ""
    if framework == "jax":
        allowed = _constraint(project, "jax", "jaxlib")
        jax = next((row for row in reversed(facts.jax_releases()) if row.version in allowed), facts.jax_releases()[-1])
        return (jax.version,), True, jax.pythons, ""
    allowed = _constraint(project, "torch")
    rows = [row for row in reversed(facts.torch_releases()) if row.verified]
    # The package index has torch for one CUDA only; toolkit `cuda` has nvcc for a few.
    fitting = [row for row in rows if not needs_cuda or facts.minor(row.cuda) == facts.minor(CUDA["13"])]
    chosen = next((row for row in (*fitting, *rows) if Version(row.version) in allowed), rows[0])
    return (chosen.version,), True, chosen.pythons, chosen.cuda


def _cuda_releases(project: Project, minor: str) -> tuple[tuple[str, ...], bool]:
    carried = project.bake_file.axes.get("cuda") if project.bake_file else None
    if carried:
        return tuple(release if release.count(".") == 2 else f"{release}.0" for release in carried[0]), False
    return (CUDA.get(minor.partition(".")[0], CUDA["13"]),), True


def _components(project: Project, framework: str) -> tuple[tuple[str, Place], ...]:
    from bakery.toolchains.registry import frameworks

    known = frameworks()[framework].components if framework else ()
    found: dict[str, Place] = {}
    for name, starts in _INCLUDES.items():
        place = project.cmake.cuda_libraries.get(name) or project.sources.includes(*starts)
        if place and name not in known:
            found[name] = place
    return tuple(found.items())
