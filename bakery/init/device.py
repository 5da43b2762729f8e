"""Which framework and which CUDA a project is built with, and their releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from bakery.init.findings import Place, requirement_name
from bakery.init.project import Project
from bakery.init.tree import TABLES
from bakery.toolchains import facts

LONGEST_SPECIFIER = 500
"""Characters of a version specifier that is read."""

_MOST_SPECIFIERS = 100
HEADERS_ONLY = ("profiler", "nvptxcompiler", "nvtx")
"""Components that a build needs, and no wheel: headers, and a static library."""

_UNKNOWN = "WRONG: the project requires {}, and Bakery knows no such release: write one"
_LIBRARIES = ("cuda", "cudart", "cudart_static", "cublas", "cudnn", "cufft", "curand", "cusolver", "cusparse", "nvrtc")

Choose = Callable[[str, Sequence[str]], str]
"""Asks which of some values is meant; where nobody can be asked, it returns the first."""


@dataclass(frozen=True)
class Device:
    """What a project needs beside C++.

    Attributes:
        framework: ``torch``, ``jax`` or empty.
        framework_place: what shows it.
        releases: its releases.
        releases_reason: where they are from.
        pythons: the Pythons that they support; empty for any.
        cuda: the releases of CUDA; empty if the project has no code for it.
        cuda_reason: where they are from.
        cuda_place: what shows that CUDA is used.
        components: libraries of CUDA → their places.
    """

    framework: str = ""
    framework_place: Place | None = None
    releases: tuple[str, ...] = ()
    releases_reason: str = ""
    pythons: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()
    cuda_reason: str = ""
    cuda_place: Place | None = None
    components: tuple[tuple[str, Place], ...] = ()

    @property
    def libraries(self) -> list[str]:
        """The components that a wheel needs, too."""
        return [name for name, _ in self.components if name not in HEADERS_ONLY]


def find_device(project: Project, choose: Choose) -> Device:
    """Return the framework and the CUDA that a project is built with."""
    if project.is_compiled_later:
        return Device()
    cuda_place = project.metadata.setup.extensions.get("CUDAExtension") or _cuda_place(project)
    uses = {"torch": _torch_place(project), "jax": project.built.includes("xla/ffi/")}
    places = {name: place for name, place in uses.items() if place}
    framework = next(iter(places), "")
    if len(places) > 1:
        question = (
            f"The project uses torch ({places['torch']}) and JAX ({places['jax']}). Which one is the wheel built for?"
        )
        framework = choose(question, tuple(places))
    releases, reason, pythons, cuda_minor = _releases(project, framework, needs_cuda=cuda_place is not None)
    carried = project.axes.get("cuda")
    known = TABLES["cuda-releases"]
    cuda = tuple(release if release.count(".") == 2 else f"{release}.0" for release in carried[0]) if carried else ()
    return Device(
        framework=framework,
        framework_place=places.get(framework),
        releases=releases,
        releases_reason=reason,
        pythons=pythons,
        cuda=(cuda or (known.get(cuda_minor.partition(".")[0], known["13"]),)) if cuda_place else (),
        cuda_reason=str(carried[1]) if carried else "guess: any release that the code compiles with",
        cuda_place=cuda_place,
        components=_components(project, framework) if cuda_place else (),
    )


def _cuda_place(project: Project) -> Place | None:
    """Return what shows that a build without CUDAExtension compiles for CUDA, or uses its libraries."""
    backend, cmake = project.metadata.backend.text, project.cmake
    if cmake.cuda_option and backend != "scikit-build-core":
        # Only this backend can be told to switch it on.
        return None
    if backend == "maturin":
        features = project.metadata.pyproject.facts("tool", "maturin", "features")
        return next((fact.place for fact in features if fact.text == "cuda"), None)
    linked = next((fact.place for fact in project.metadata.setup.libraries if fact.text in _LIBRARIES), None)
    place = project.language("cuda") or linked
    included = project.built.absent
    for header in ("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h"):
        # For an extension of torch, a header is enough: it is in every build for CUDA.
        if header in included and (_torch_place(project) or project.built.is_reached(header)):
            place = place or (cmake.packages.get("CUDAToolkit") if cmake.file else included[header])
    return place


def _torch_place(project: Project) -> Place | None:
    needed = project.metadata.needs("torch")
    return (
        project.metadata.setup.imports.get("torch")
        or project.cmake.packages.get("Torch")
        or (needed.place if needed else None)
        or project.built.includes("torch/", "ATen/", "c10/")
    )


def _constraint(project: Project, *names: str) -> SpecifierSet:
    """Return which releases the project requires of one of some distributions."""
    specifiers = SpecifierSet()
    required = (*project.metadata.requires, *project.metadata.dependencies)
    named = (fact for fact in required if requirement_name(fact.text) in names)
    for fact in islice(named, _MOST_SPECIFIERS):
        if len(fact.text) <= LONGEST_SPECIFIER:
            try:
                specifiers &= Requirement(fact.text).specifier
            except InvalidRequirement:
                continue
    return specifiers


def _pin(specifiers: SpecifierSet) -> str:
    """Return the release that some specifiers pin exactly; empty if they pin none."""
    pins = {item.version for item in specifiers if item.operator == "==" and not item.version.endswith(".*")}
    pin = next(iter(pins)) if len(pins) == 1 else ""
    return pin if pin.count(".") == 2 and pin in specifiers else ""


def _releases(
    project: Project, framework: str, *, needs_cuda: bool
) -> tuple[tuple[str, ...], str, tuple[str, ...], str]:
    """Return the releases of a framework, where they are from, their Pythons, and the CUDA they are built for."""
    carried = project.axes.get(framework)
    if carried:
        row = facts.torch_release(carried[0][0]) if framework == "torch" else None
        return carried[0], str(carried[1]), row.pythons if row else (), row.cuda if row else ""
    reason = "guess: a release that exists for these Pythons"
    if framework == "jax":
        allowed = _constraint(project, "jax", "jaxlib")
        if pin := _pin(allowed):
            of_minor = (row.pythons for row in facts.jax_releases() if facts.minor(row.version) == facts.minor(pin))
            return (pin,), "the project requires exactly this one", next(of_minor, ()), ""
        jax = next((row for row in reversed(facts.jax_releases()) if row.version in allowed), facts.jax_releases()[-1])
        reason = reason if jax.version in allowed else _UNKNOWN.format(f"jax{allowed}")
        return (jax.version,), reason, jax.pythons, ""
    if framework == "torch":
        allowed = _constraint(project, "torch")
        if pin := _pin(allowed):
            known = facts.torch_release(pin)
            pythons, cuda = (known.pythons, known.cuda) if known else ((), "")
            return (pin,), "the project requires exactly this one", pythons, cuda
        rows = [row for row in reversed(facts.torch_releases()) if row.verified]
        # The package index has torch for one CUDA only; toolkit `cuda` has nvcc for a few.
        newest = facts.minor(TABLES["cuda-releases"]["13"])
        fitting = [row for row in rows if not needs_cuda or facts.minor(row.cuda) == newest]
        # torch's headers need the standard that the project gives the compiler, or an older one.
        files = project.known.build_files
        stated = {at: cxx for at, cxx in (files.standards | files.torch_standards).items() if at.startswith("setup.py")}
        place = min(stated, key=lambda at: stated[at], default="")
        readable = [row for row in fitting if place and row.cxx <= stated[place]]
        chosen = next((row for row in (*readable, *fitting, *rows) if Version(row.version) in allowed), rows[0])
        if Version(chosen.version) not in allowed:
            reason = _UNKNOWN.format(f"torch{allowed}")
        elif chosen in readable and chosen.version != fitting[0].version:
            reason = f"guess: the newest for C++{stated[place]} ({place})"
        return (chosen.version,), reason, chosen.pythons, chosen.cuda
    return (), "", (), ""


def _components(project: Project, framework: str) -> tuple[tuple[str, Place], ...]:
    from bakery.toolchains.registry import frameworks

    known = frameworks()[framework].components if framework else ()
    tools: dict[str, Place] = {}
    for name, starts in TABLES["cuda-headers"].items():
        place = project.cmake.cuda_libraries.get(name) or project.built.includes(*starts.split())
        if place and name not in known:
            tools[name] = place
    return tuple(tools.items())
