"""Tools and build options that are not compatible, names for public indexes, and the memory of the build machine."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from packaging.utils import canonicalize_name
from packaging.version import Version

from bakery.core.names import DERIVED, axis_variable, with_derived
from bakery.resolve.rules.rule import Severity, rule
from bakery.resolve.rules.subject import RuleSubject
from bakery.resolve.stage_inputs import SCCACHE
from bakery.toolchains.facts import number, sccache

_LAUNCHERS = ("CMAKE_CUDA_COMPILER_LAUNCHER", "PYTORCH_NVCC")
_SCCACHE = re.compile(r"(?:^|[/\s])sccache(?:\s|$)")
_LIMITED = "py-limited-api"
_PY_API = "wheel.py-api"


@rule(
    "sccache-cuda",
    "sccache supports the CUDA release",
    why="sccache runs each step of nvcc itself and expects files that newer releases of nvcc name differently. The "
    "newest release in the package index is 0.16.0. 0.18.0 knows these names, but still fails for architectures from 9.0 "
    "on that are listed with PTX only (90-virtual): nvcc then runs ptxas as a check that writes no file.",
    fix="use Bakery's ccache (compiler-cache = 'ccache'), or require sccache>=0.18 and list no architecture with PTX only",
    source="sccache 0.16.0 tested with CUDA 13.0 and 13.5; mozilla/sccache#2722, #2862, pytorch/pytorch#190832",
)
def _sccache(subject: RuleSubject) -> Iterator[str]:
    texts = [subject.environment.get(name, "") for name in _LAUNCHERS]
    texts += [text for key, text in subject.settings.items() if key.endswith(_LAUNCHERS[0])]
    if not subject.compiler or not any(map(_SCCACHE.search, texts)):
        return
    for row in sccache():
        if number(subject.cuda) >= number(row.cuda_from) and not _has_fixed(subject, row.fixed_in):
            yield f"sccache before {row.fixed_in} with CUDA {subject.cuda}: {row.what}"


def _has_fixed(subject: RuleSubject, fixed: str) -> bool:
    """Whether the recipe requires a fixed sccache, or none at all, since an image may contain one. Bakery's has a wheel."""
    if SCCACHE in subject.environment.values():
        return False
    requirements = [item for item in subject.requirements if canonicalize_name(item.name) == "sccache"]
    if not requirements and "sccache" not in subject.plan.facts.packages:
        return True
    floors = [spec for item in requirements for spec in item.specifier if spec.operator in (">=", "==", "~=")]
    return any(Version(spec.version.removesuffix(".*")) >= Version(fixed) for spec in floors)


@rule(
    "free-threaded-limited-api",
    "setuptools builds no abi3 wheel for a free-threaded Python",
    why="Py_LIMITED_API and Py_GIL_DISABLED are not compatible, so setuptools raises ValueError. The stable ABI for "
    "free-threaded Pythons (abi3t, PEP 803) starts with 3.15.",
    fix="remove the free-threaded Python, or build it with a separate recipe without the option",
    source="setuptools, bdist_wheel; PEP 803; python/cpython#111506",
)
def _limited_api(subject: RuleSubject) -> Iterator[str]:
    if subject.python.endswith("t"):
        yield from (
            f"{key} = {text!r}: setuptools refuses {_LIMITED} on Python {subject.python}"
            for key, text in subject.settings.items()
            if _LIMITED in key or _LIMITED in text
        )


@rule(
    "free-threaded-abi3",
    "abi3 wheels are not for free-threaded Pythons",
    why="A free-threaded Python cannot load abi3 modules, so each of them needs its own wheel.",
    fix="remove this Python from the matrix, unless you want a separate wheel for it",
    source="PEP 703, PEP 803; changes of scikit-build-core 0.9.4, which skips the stable ABI there",
    severity=Severity.WARNING,
)
def _abi3(subject: RuleSubject) -> Iterator[str]:
    api = subject.settings.get(_PY_API, "")
    if subject.python.endswith("t") and api.startswith("cp3"):
        yield f"{_PY_API} = {api!r}: Python {subject.python} cannot load abi3 modules, so it needs its own wheel"


@rule(
    "public-local-version",
    "A wheel for a public index has no local version",
    why="PyPI refuses the upload of a local version (400), after everything was built.",
    fix='remove it: naming = { clean = true, index = "public" }; for a private index, add '
    'also-named = [{ local = "…", index = "private" }]',
    source="pypi/warehouse, forklift; the version specifiers' specification, local version identifiers",
)
def _public_local(subject: RuleSubject) -> Iterator[str]:
    yield from (
        f"a wheel with the local version +{local} goes to a public index" for local in subject.public_names if local
    )


@rule(
    "wheel-names",
    "Wheels of different cells have different names",
    why="An index and dist/ have one file of each name. If two cells build different wheels with one name, the run fails "
    "after both were compiled. Only the project can know whether its version already differs.",
    fix="tell them apart: write the naming in the message in [wheel], or build-tag for a public index; ignore this if the "
    "project's own version has the value",
    source="the binary distribution format; flash-attention and vLLM name the CUDA release in the local version",
    severity=Severity.WARNING,
)
def _names(subject: RuleSubject) -> Iterator[str]:
    if subject.unnamed_axes:
        local = "".join(_label(axis, {cell.axes[axis] for cell in subject.plan.cells}) for axis in subject.unnamed_axes)
        axes = " and ".join(subject.unnamed_axes)
        yield f'cells that differ only in {axes} build wheels of one name: naming = {{ local = "{local}" }}'


def _label(axis: str, values: set[str]) -> str:
    """Return the part of a local version with the value of an axis, as short as the values stay different."""
    variable, plain = axis_variable(axis), {"cuda": "cu"}.get(axis, axis.replace("-", ""))
    short = variable.replace("_VERSION", "_TAG" if axis == "cuda" else "_MINOR")
    parts = {with_derived({variable: value}).get(short) for value in values}
    return f"{plain}${{{short if short in DERIVED and len(parts) == len(values) else variable}}}"


@rule(
    "one-wheel-for-pythons",
    "One cell builds a wheel that serves several Pythons",
    why="Each Python would build a wheel of its own, with the same name. Two compilers seldom give the same bytes, and then "
    "the run fails after all were compiled, or, in several jobs, only when the wheels meet.",
    fix='set the key: [wheel] abi3 = "3.11" for an abi3 wheel of 3.11 and newer, py3 = true for a py3-none one',
    source="setuptools, scikit-build-core, meson-python and maturin name such wheels cp311-abi3 or py3-none",
    severity=Severity.WARNING,
)
def _one_wheel(subject: RuleSubject) -> Iterator[str]:
    api = subject.settings.get(_PY_API, "")
    floor, place = (
        (f"3.{api[3:]}", f"{_PY_API} = {api!r}") if re.fullmatch(r"cp3\d+", api) else (api, f"{_PY_API} = {api!r}")
    )
    if not api:
        floor, place = subject.project.one_wheel if subject.project else ("", "")
    if not re.fullmatch(r"py3|3\.\d+", floor):
        return
    served = [
        python
        for python in sorted(subject.pythons, key=_minor)
        if floor == "py3" or (not python.endswith("t") and _minor(python) >= _minor(floor))
    ]
    if subject.python in served and served[1:]:
        # meson-python names the wheel for the Python that builds it, others for the floor: the lowest served is right for all.
        key = "py3 = true" if floor == "py3" else f'abi3 = "{served[0]}"'
        yield f"{place}: Python {', '.join(served)} each build a wheel of one name; set wheel.{key}"


def _minor(python: str) -> int:
    return int(python.removesuffix("t").partition(".")[2])


_NUMBER = re.compile(r"[1-9][0-9]*")


@rule(
    "jobs-memory",
    "The machine has enough memory for the number of compilers in the recipe",
    why="If memory runs out, the kernel kills a compiler, and the build fails late with only 'Killed' as the reason. "
    "This is checked when wheels are built, with the memory of the engine's machine.",
    fix="remove the number: with builder.job-memory, it depends on the machine; or build on a larger machine",
    source="SageAttention 2.2: 3.1 to 3.3 GB for each nvcc, and 4 × 32 of them by default; flash-attention #2079",
)
def _jobs_memory(subject: RuleSubject) -> Iterator[str]:
    setting, jobs = max(_fixed(subject), key=lambda item: item[1])
    memory = subject.plan.facts.limits.memory
    if subject.host.memory and jobs * memory > subject.host.memory:
        sizes = (memory, jobs * memory, subject.host.memory)
        each, needed, available = (f"{size / 1e9:.1f} GB" for size in sizes)
        yield f"{setting}: {jobs} compilers of {each} need {needed}, and the machine has {available}"


def _fixed(subject: RuleSubject) -> Iterator[tuple[str, int]]:
    """Yield every setting that fixes the number of compilers, with the number; 0 for none."""
    jobs = subject.plan.facts.limits.jobs
    yield f"builder.jobs = {jobs}", jobs
    texts = {
        name: subject.environment.get(name, "") for name in ("CMAKE_BUILD_PARALLEL_LEVEL", "EXT_PARALLEL", "MAX_JOBS")
    }
    numbers = {name: int(text) for name, text in texts.items() if _NUMBER.fullmatch(text)}
    level = numbers.pop("CMAKE_BUILD_PARALLEL_LEVEL", 0)
    yield f"CMAKE_BUILD_PARALLEL_LEVEL = {level}", level
    yield " × ".join(f"{name} = {number}" for name, number in numbers.items()), math.prod(numbers.values() or (0,))
