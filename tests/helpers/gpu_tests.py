"""A recipe whose tests need a GPU, and a library in the place of NVIDIA's driver: no machine of the tests has a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import plans

from bakery.plan.model import Plan

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
# Debian has not every Python, and the wheel must be for the one that runs the tests.
BASE = "" if VERSION in {"3.11", "3.13", "3.14"} else 'builder.base = "manylinux_2_28"\n'
COMMAND = "test -f tests/one && python -c 'import demo' && test -z \"$PASSWORD\""
RECIPE = f"""\
name = "demo"
{BASE}[matrix]
python = ["{VERSION}"]
[test]
gpu = true
imports = ["demo"]
files = ["tests"]
command = '''{COMMAND}'''
"""

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


def planned(folder: Path, text: str = RECIPE) -> Plan:
    """Return the plan of a recipe whose tests are in the folder."""
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "one").write_text("1")
    return plans.written(folder, text)
