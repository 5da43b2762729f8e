"""Solvers on a GPU; without one, the libraries are loaded all the same."""

import math
from operator import mul

import jaxmg
import pytest
from jaxmg._load import library

gpu = pytest.mark.skipif(jaxmg.device_count() == 0, reason="no GPU")
SIZES = [1, 7, 64, 200]


def dot(first, second):
    return sum(map(mul, first, second))


def matrix(n):
    """A symmetric positive definite matrix."""
    return [[math.exp(-abs(row - column)) + n * (row == column) for column in range(n)] for row in range(n)]


@pytest.mark.parametrize("name", jaxmg.LIBRARIES)
def test_library_is_there(name):
    assert getattr(library(name), f"jaxmg_{name}")


@pytest.mark.skipif(jaxmg.device_count() > 0, reason="there is a GPU")
def test_says_why_without_a_gpu():
    with pytest.raises(RuntimeError, match=r"cusolver|CUDA"):
        jaxmg.potrs([[1.0]], [[1.0]])


@gpu
@pytest.mark.parametrize("all_devices", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_solves(n, all_devices):
    a, b = matrix(n), [[1.0] * n, [float(i) for i in range(n)]]
    x = jaxmg.potrs(a, b, all_devices=all_devices)
    assert jaxmg.residual(a, x, b) < 1e-9 * n
    own = max(abs(dot(row, x[1]) - i) for i, row in enumerate(a))
    assert own < 1e-9 * n


@gpu
@pytest.mark.parametrize("n", SIZES)
def test_inverts(n):
    a, inverse = matrix(n), jaxmg.potri(matrix(n))
    for i in range(n):
        for j in range(n):
            # The inverse is symmetric, so that its rows are its columns.
            assert math.isclose(dot(a[i], inverse[j]), i == j, abs_tol=1e-9)


@gpu
@pytest.mark.parametrize("all_devices", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_finds_eigenvalues(n, all_devices):
    a = matrix(n)
    values, vectors = jaxmg.syevd(a, all_devices=all_devices)
    assert values == sorted(values)
    for i in range(0, n, max(1, n // 5)):
        for j in range(n):
            assert math.isclose(dot(a[j], vectors[i]), values[i] * vectors[i][j], abs_tol=1e-8 * n)


@gpu
def test_refuses_what_has_no_solution():
    with pytest.raises(RuntimeError, match="not positive definite"):
        jaxmg.potrs([[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0]])
