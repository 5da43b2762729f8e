"""Find the CUDA runtime library, which is not in this wheel."""

import ctypes
import sys
from pathlib import Path

from bakery_example_cuda._build import CUDA_MAJOR

FOLDERS = {12: "nvidia/cuda_runtime/lib", 13: "nvidia/cu13/lib"}
"""Where NVIDIA's wheels put the library, by CUDA major."""


def preload() -> None:
    """Load the library from NVIDIA's wheels, if they are there.

    The module then finds it by its name in the process. Otherwise the loader looks for it in the system's
    folders, as for any library.
    """
    for entry in sys.path:
        library = Path(entry, FOLDERS[CUDA_MAJOR], f"libcudart.so.{CUDA_MAJOR}")
        if library.is_file():
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            return
