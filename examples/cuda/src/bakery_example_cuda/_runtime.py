"""Find the CUDA runtime library, which is not in this wheel."""

import ctypes
import sys
from pathlib import Path

from bakery_example_cuda._build import CUDA_MAJOR

LIBRARIES = {
    11: "nvidia/cuda_runtime/lib/libcudart.so.11.0",
    12: "nvidia/cuda_runtime/lib/libcudart.so.12",
    13: "nvidia/cu13/lib/libcudart.so.13",
}
"""Where NVIDIA's wheels put the library, by CUDA major."""


def preload() -> None:
    """Load the library from NVIDIA's wheels, if they are there.

    The module then finds it by its name in the process. Otherwise the loader looks for it in the system's
    folders, as for any library.
    """
    for entry in sys.path:
        library = Path(entry, LIBRARIES[CUDA_MAJOR])
        if library.is_file():
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            return
