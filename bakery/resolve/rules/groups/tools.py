"""Tools and build options that do not go together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from bakery.resolve.rules.case import Case
from bakery.resolve.rules.rule import Severity, rule
from bakery.toolchains.facts import number, sccache

_LAUNCHERS = ("CMAKE_CUDA_COMPILER_LAUNCHER", "PYTORCH_NVCC")
_SCCACHE = re.compile(r"(?:^|[/\s])sccache(?:\s|$)")
_LIMITED = "py-limited-api"
_PY_API = "wheel.py-api"


@rule(
    "sccache-cuda",
    "sccache understands the CUDA release",
    why="sccache runs nvcc's steps one by one and looks for files that newer releases of nvcc name otherwise. The "
    "package index has nothing newer than 0.16.0.",
    fix="leave the compiler cache to bakery's ccache (builder.compiler-cache), or require sccache>=0.18",
    source="sccache 0.16.0 run with CUDA 13.0 and 13.5; mozilla/sccache#2722",
)
def _sccache(case: Case) -> Iterator[str]:
    texts = [case.environment.get(name, "") for name in _LAUNCHERS]
    texts += [text for key, text in case.settings.items() if key.endswith(_LAUNCHERS[0])]
    if not case.compiler or not any(map(_SCCACHE.search, texts)):
        return
    for row in sccache():
        if number(case.cuda) >= number(row.cuda_from) and not _has_fixed(case, row.fixed_in):
            yield f"sccache before {row.fixed_in} with CUDA {case.cuda}: {row.what}"


def _has_fixed(case: Case, fixed: str) -> bool:
    """Whether the recipe asks for no sccache that has the defect, or for none at all: an image may bring its own."""
    requirements = [item for item in case.requirements if item.name == "sccache"]
    if not requirements and "sccache" not in case.packages:
        return True
    floors = [spec for item in requirements for spec in item.specifier if spec.operator in (">=", "==", "~=")]
    return any(Version(spec.version.removesuffix(".*")) >= Version(fixed) for spec in floors)


@rule(
    "free-threaded-limited-api",
    "setuptools is not asked for an abi3 wheel on a free-threaded Python",
    why="Py_LIMITED_API does not go with Py_GIL_DISABLED, and setuptools raises ValueError. A stable ABI for "
    "free-threaded Pythons (abi3t, PEP 803) begins with 3.15.",
    fix="leave the free-threaded Python out of this recipe, or give it a recipe without the option",
    source="setuptools, bdist_wheel; PEP 803; python/cpython#111506",
)
def _limited_api(case: Case) -> Iterator[str]:
    if case.python.endswith("t"):
        yield from (
            f"{key} = {text!r}: setuptools refuses {_LIMITED} on Python {case.python}"
            for key, text in case.settings.items()
            if _LIMITED in key or _LIMITED in text
        )


@rule(
    "free-threaded-abi3",
    "An abi3 wheel is not expected to serve free-threaded Pythons",
    why="A free-threaded Python loads no abi3 module: where others share one wheel, each of these needs its own.",
    fix="nothing, where a wheel for this Python alone is what you want; else leave it out",
    source="PEP 703, PEP 803; changes of scikit-build-core 0.9.4, which skips the stable ABI there",
    severity=Severity.WARNING,
)
def _abi3(case: Case) -> Iterator[str]:
    api = case.settings.get(_PY_API, "")
    if case.python.endswith("t") and api.startswith("cp3"):
        yield f"{_PY_API} = {api!r}: Python {case.python} loads no abi3 module, so this cell's wheel is for it alone"
