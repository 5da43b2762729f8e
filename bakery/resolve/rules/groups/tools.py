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


@rule("sccache-cuda", "sccache supports the CUDA release")
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


@rule("free-threaded-limited-api", "setuptools builds no abi3 wheel for a free-threaded Python")
def _limited_api(subject: RuleSubject) -> Iterator[str]:
    if subject.python.endswith("t"):
        yield from (
            f"{key} = {text!r}: setuptools refuses {_LIMITED} on Python {subject.python}"
            for key, text in subject.settings.items()
            if _LIMITED in key or _LIMITED in text
        )


@rule("free-threaded-abi3", "abi3 wheels are not for free-threaded Pythons", severity=Severity.WARNING)
def _abi3(subject: RuleSubject) -> Iterator[str]:
    api = subject.settings.get(_PY_API, "")
    if subject.python.endswith("t") and api.startswith("cp3"):
        yield f"{_PY_API} = {api!r}: Python {subject.python} cannot load abi3 modules, so it needs its own wheel"


@rule("public-local-version", "A wheel for a public index has no local version")
def _public_local(subject: RuleSubject) -> Iterator[str]:
    yield from (
        f"a wheel with the local version +{local} goes to a public index" for local in subject.public_names if local
    )


@rule("wheel-names", "Wheels of different cells have different names", severity=Severity.WARNING)
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


@rule("one-wheel-for-pythons", "One cell builds a wheel that serves several Pythons", severity=Severity.WARNING)
def _one_wheel(subject: RuleSubject) -> Iterator[str]:
    api = subject.settings.get(_PY_API, "")
    own = (re.sub(r"\Acp3(?=\d+\Z)", "3.", api), f"{_PY_API} = {api!r}")
    floor, place = own if api else subject.project.one_wheel
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


@rule("jobs-memory", "The machine has enough memory for the number of compilers in the recipe")
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
