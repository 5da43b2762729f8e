"""A project whose native step compiles a library once for the wheels of all Pythons."""

from __future__ import annotations

import uuid
from pathlib import Path

from projects import REQUIRES

RECIPE = """\
name = "tiny"
[matrix]
python = ["3.13", "3.11"]
[native]
command = '''
cmake -S native -B /build -G Ninja -DCMAKE_INSTALL_PREFIX=/native
cmake --build /build
cmake --install /build
'''
into = "src/tiny/lib"
requirements = ["cmake>=3.26", "ninja"]
environment = { CXXFLAGS = "-DANSWER=42" }
[test]
imports = ["tiny"]
command = "python -c 'import tiny; assert tiny.answer() == 42; print(tiny.stamp())'"
"""


FILES = {
    "native/CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.26)
project(tiny LANGUAGES CXX)
# Another number in each build: it tells whether two wheels hold the same one.
file(READ /proc/sys/kernel/random/uuid stamp)
string(STRIP "${stamp}" stamp)
add_library(tiny SHARED tiny.cpp)
target_compile_definitions(tiny PRIVATE "STAMP=\\"${stamp}\\"")
install(TARGETS tiny LIBRARY DESTINATION .)
""",
    "native/tiny.cpp": """\
#include <cstdlib>

extern "C" int answer() { return std::abs(-ANSWER); }
extern "C" const char *stamp() { return std::getenv("NONE") ? "" : "stamp " STAMP; }
""",
    "src/tiny/__init__.py": """\
import ctypes
import os

_library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", "libtiny.so"))
_library.stamp.restype = ctypes.c_char_p
answer = _library.answer


def stamp():
    return _library.stamp().decode()
""",
    "pyproject.toml": f"""\
[build-system]
requires = {REQUIRES}
build-backend = "setuptools.build_meta"
[project]
name = "tiny"
version = "1.0"
""",
    "setup.py": """\
from setuptools import Distribution, setup


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(packages=["tiny"], package_dir={"": "src"}, package_data={"tiny": ["lib/*.so"]}, distclass=Binary)
""",
}


def project(folder: Path, recipe: str = RECIPE) -> Path:
    """Write the project; no step of it is in any cache."""
    fresh = {"native/fresh.txt": str(uuid.uuid4()), "bakery.toml": recipe}
    for name, text in {**FILES, **fresh}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder
