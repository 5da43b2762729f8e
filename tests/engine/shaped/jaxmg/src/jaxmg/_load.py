"""Loads CUDA's libraries from NVIDIA's wheels where they are installed, then this package's own."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path

LIBRARIES = ("potrs", "potri", "syevd", "residual", "potrs_mg", "syevd_mg")

_HERE = Path(__file__).resolve().parent / "bin"
_NEEDED = ("cudart", "nvJitLink", "cublasLt", "cublas", "cusparse", "cusolver", "cusolverMg")
"""In the order of their needs: each finds those before it loaded already."""


@cache
def _cuda() -> None:
    for name in _NEEDED:
        # nvidia/cu13/lib, or a folder for each library.
        for folder in sys.path:
            found = sorted(Path(folder, "nvidia").glob(f"*/lib/lib{name}.so.*"))
            if found:
                ctypes.CDLL(str(found[0]), mode=ctypes.RTLD_GLOBAL)
                break


@cache
def library(name: str) -> ctypes.CDLL:
    """Return one of this package's libraries.

    Raises:
        OSError: CUDA's libraries are not there.
    """
    _cuda()
    return ctypes.CDLL(str(_HERE / f"lib{name}.so"))


def device_count() -> int:
    """Return the number of GPUs; 0 where there is no driver."""
    count = ctypes.c_int()
    return 0 if library("potrs").cudaGetDeviceCount(ctypes.byref(count)) else count.value
