"""Dense linear algebra in double precision on GPUs, with cuSOLVER, cuSolverMg and cuBLAS.

Matrices are sequences of rows; symmetric ones read the same in the column-major order of the libraries.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from jaxmg._load import LIBRARIES, device_count, library

__all__ = ["LIBRARIES", "device_count", "potri", "potrs", "residual", "syevd"]

__version__ = "0.0.2"

Rows = Sequence[Sequence[float]]


def potrs(a: Rows, b: Rows, *, all_devices: bool = False) -> list[list[float]]:
    """Solve a·x = b for a symmetric positive definite ``a``; the columns of ``b`` are given one after the other."""
    x = _array(len(b) * len(a))
    _call("potrs_mg" if all_devices else "potrs", len(a), len(b), _flat(a), _flat(b), x)
    return _rows(x, len(a))


def potri(a: Rows) -> list[list[float]]:
    """Invert a symmetric positive definite matrix."""
    inverse = _array(len(a) ** 2)
    _call("potri", len(a), _flat(a), inverse)
    return _rows(inverse, len(a))


def syevd(a: Rows, *, all_devices: bool = False) -> tuple[list[float], list[list[float]]]:
    """Return the eigenvalues of a symmetric matrix in ascending order, and their vectors."""
    values, vectors = _array(len(a)), _array(len(a) ** 2)
    _call("syevd_mg" if all_devices else "syevd", len(a), _flat(a), values, vectors)
    return list(values), _rows(vectors, len(a))


def residual(a: Rows, x: Rows, b: Rows) -> float:
    """Return the norm of a·x - b for a symmetric ``a``; the columns of ``x`` and ``b`` one after the other."""
    norm = ctypes.c_double()
    _call("residual", len(a), len(b), _flat(a), _flat(x), _flat(b), ctypes.byref(norm))
    return norm.value


def _call(name: str, *arguments: object) -> None:
    message = ctypes.create_string_buffer(256)
    if getattr(library(name), f"jaxmg_{name}")(*arguments, message, len(message)):
        raise RuntimeError(message.value.decode())


def _array(length: int) -> ctypes.Array[ctypes.c_double]:
    return (ctypes.c_double * length)()


def _flat(rows: Rows) -> ctypes.Array[ctypes.c_double]:
    flat = [value for row in rows for value in row]
    return (ctypes.c_double * len(flat))(*flat)


def _rows(array: ctypes.Array[ctypes.c_double], width: int) -> list[list[float]]:
    return [list(array[start : start + width]) for start in range(0, len(array), width)]
