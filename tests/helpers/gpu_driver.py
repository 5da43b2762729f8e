"""A library in the place of NVIDIA's driver: no machine of the tests has a GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

_DRIVER = """\
int cuInit(unsigned f) { return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGet(int *d, int n) { *d = n; return 0; }
int cuDeviceGetName(char *s, int n, int d) { s[0] = 'G'; s[1] = 0; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 : 0; return 0; }
"""
"""The seven functions that are called."""


def make_driver(folder: Path) -> Path:
    """Compile the library into a new folder, and return the folder."""
    folder.mkdir()
    words = ["gcc", "-shared", "-x", "c", "-", "-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1")]
    subprocess.run(words, input=_DRIVER, text=True, check=True)
    return folder
