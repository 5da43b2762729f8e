"""JAX: the Pythons and CUDA releases of its wheels."""

from __future__ import annotations

from collections.abc import Iterator

from bakery.resolve.rules.case import Case
from bakery.resolve.rules.rule import rule
from bakery.toolchains.facts import jax_releases, minor
from bakery.toolchains.facts.rows import JaxRelease


def _row(case: Case) -> JaxRelease | None:
    return next((row for row in jax_releases() if case.jax and minor(row.version) == minor(case.jax)), None)


@rule(
    "jax-python",
    "jaxlib has wheels for the cell's Python",
    why="Without a wheel, JAX cannot be installed, so nothing can be built for it.",
    fix="exclude the combination (matrix.exclude), or use another JAX release",
    source="jaxlib's wheels on PyPI",
)
def _python(case: Case) -> Iterator[str]:
    row = _row(case)
    if row and row.pythons and case.python not in row.pythons:
        yield f"JAX {row.version} has no wheel for Python {case.python}, only for {', '.join(row.pythons)}"


@rule(
    "jax-cuda",
    "JAX has an extra for the CUDA major that compiles",
    why="A wheel that uses the CUDA libraries of jax[cudaN] does not find its major if JAX has no such extra.",
    fix="use a CUDA release of a major that this JAX has an extra for, or another JAX release",
    source="metadata of jax on PyPI",
)
def _cuda(case: Case) -> Iterator[str]:
    row, major = _row(case), case.cuda_major
    if row and major and f"cuda{major}" not in row.extras:
        yield f"JAX {row.version} has no extra cuda{major}; it has {', '.join(row.extras)}"
