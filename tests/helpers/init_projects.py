"""Small projects of each kind, as `wheel-bakery init` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from file_trees import write_files

from bakery.init.bases import BaseChoice
from bakery.init.make import Checked, make_recipe
from bakery.init.project import candidates
from bakery.init.tree import scan
from bakery.init.write import find_target

TRAP = "from pathlib import Path\nPath(__file__).with_name('RAN').touch()\n"
"""The start of each setup.py: nothing may run it."""

_SETUPTOOLS = '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'

LEGACY = {
    "setup.py": TRAP
    + """
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

try:
    import optional_tool
except ImportError:
    optional_tool = None

NAME = "legacy-ext"
setup(
    name=NAME,
    version="1.0",
    python_requires=">=3.10",
    setup_requires=["pkgconfig>=1.5"],
    package_dir={"": "lib"},
    packages=["legacy_ext"],
    ext_modules=cythonize([Extension("legacy_ext._fast", ["lib/legacy_ext/_fast.pyx"], libraries=["z", "m"])]),
)
""",
    "lib/legacy_ext/__init__.py": "",
    "lib/legacy_ext/_fast.pyx": "cimport numpy\n",
}

ABI3 = {
    "pyproject.toml": _SETUPTOOLS,
    "setup.cfg": "[metadata]\nname = Stable.ABI\n[options]\npython_requires = >=3.8\n",
    "setup.py": TRAP
    + """
from setuptools import Extension, setup

setup(
    ext_modules=[Extension("stable_abi", ["stable.c"], py_limited_api=True)],
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
    classifiers=["Programming Language :: Python :: 3.9", "Programming Language :: Python :: 3.13"],
)
""",
    "stable.c": "#define Py_LIMITED_API 0x03090000\n#include <Python.h>\n#include <openssl/ssl.h>\n",
}

EVERY_PYTHON = {
    "pyproject.toml": """[build-system]
requires = ["scikit-build-core>=0.10"]
build-backend = "scikit_build_core.build"
[project]
name = "every-python"
version = "1.0"
requires-python = ">=3.11"
[tool.scikit-build]
wheel.py-api = "py3"
""",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.26)\nproject(every LANGUAGES C)\nadd_library(every SHARED every.c)\n",
    "every.c": "int every(void) { return 3; }\n",
}

SCIKIT_BUILD_CORE = {
    "pyproject.toml": """[build-system]
requires = ["scikit-build-core>=0.10", "pybind11", "setuptools-scm>=8"]
build-backend = "scikit_build_core.build"

[project]
name = "fast.parts"
dynamic = ["version"]
requires-python = ">=3.11"
classifiers = ["Programming Language :: Python :: 3.11", "Programming Language :: Python :: 3.13"]

[tool.scikit-build]
metadata.version.provider = "scikit_build_core.metadata.setuptools_scm"
wheel.packages = ["python/fast_parts"]
""",
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.18...3.31)
project(parts LANGUAGES CXX)
find_package(pybind11 CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
# FetchContent_Declare(commented GIT_REPOSITORY https://example.org/x.git)
include(FetchContent)
FetchContent_Declare(json GIT_REPOSITORY https://example.org/json.git GIT_TAG v3)
pybind11_add_module(_core src/core.cpp)
""",
    "src/core.cpp": '#include <pybind11/pybind11.h>\n#include "core.h"\n',
    "python/fast_parts/__init__.py": "",
    "tests/CMakeLists.txt": "find_package(OpenSSL REQUIRED)\n",
    "third_party/kernel.cu": "#include <torch/extension.h>\n",
}

NANOBIND_CUDA = {
    "pyproject.toml": """[build-system]
requires = ["scikit-build-core", "nanobind>=2"]
build-backend = "scikit_build_core.build"

[project]
name = "kernels"
version = "1.0"
requires-python = ">=3.11"

[tool.scikit-build]
wheel.py-api = "cp312"
""",
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.26)
project(kernels LANGUAGES CXX CUDA)
nanobind_add_module(kernels STABLE_ABI src/kernels.cpp src/add.cu)
target_link_libraries(kernels PRIVATE CUDA::cublas CUDA::cudart)
""",
    "src/kernels.cpp": "#include <nanobind/nanobind.h>\n",
    "src/add.cu": "#include <cuda_runtime.h>\n#include <cufft.h>\n",
}

MESON = {
    "pyproject.toml": """[build-system]
requires = ["meson-python>=0.16", "Cython"]
build-backend = "mesonpy"

[project]
name = "waves"
version = "0.1"
requires-python = ">=3.9,<3.14"
""",
    "meson.build": """project('waves', 'c', 'cython', 'fortran', meson_version: '>= 1.2.0')
py = import('python').find_installation(pure: false)
fftw = dependency('fftw3')
extra = dependency('gsl', required: false)
py.extension_module('_waves', 'waves/_waves.pyx', subdir: 'waves', dependencies: [fftw])
""",
    "waves/__init__.py": "",
    "waves/_waves.pyx": "cdef int x = 1\n",
    "waves/kernel.f90": "end\n",
}

MATURIN = {
    "pyproject.toml": """[build-system]
requires = ["maturin>=1.5,<2"]
build-backend = "maturin"

[project]
name = "py-crab"
version = "0.1"

[tool.maturin]
module-name = "crab._crab"
python-source = "python"
manifest-path = "rust/Cargo.toml"
""",
    "rust/Cargo.toml": """[package]
name = "crab"
version = "0.1.0"
rust-version = "1.74"

[lib]
name = "_crab"
crate-type = ["cdylib"]

[dependencies]
pyo3 = { version = "0.26", features = ["extension-module", "abi3-py311"] }
openssl = "0.10"
""",
    "rust/src/lib.rs": "fn f() {}\n",
    "python/crab/__init__.py": "",
}

SETUPTOOLS_RUST = {
    "pyproject.toml": """[build-system]
requires = ["setuptools", "setuptools-rust"]
build-backend = "setuptools.build_meta"

[project]
name = "rusty"
version = "0.1"
requires-python = ">=3.13"
""",
    "Cargo.toml": '[package]\nname = "rusty"\nversion = "0.1.0"\n[dependencies]\npyo3 = "0.26"\n',
    "src/lib.rs": "",
    "rusty/__init__.py": "",
    "vendor/pyo3/.cargo-checksum.json": "{}",
}

TORCH = {
    "setup.py": TRAP
    + """
import os
from setuptools import find_packages, setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

FORCE = os.getenv("FORCE_CUDA", "0") == "1"
setup(
    name="torch_thing",
    ext_modules=[CUDAExtension("torch_thing._C", ["csrc/op.cpp", "csrc/op.cu"])],
    packages=find_packages(),
    cmdclass={"build_ext": BuildExtension},
)
""",
    "csrc/op.cpp": "#include <torch/extension.h>\n",
    "csrc/op.cu": "#include <ATen/cuda/CUDAContext.h>\n#include <nccl.h>\n",
    "torch_thing/__init__.py": "",
}

JAX = {
    "pyproject.toml": """[build-system]
requires = ["scikit-build-core", "nanobind", "jax"]
build-backend = "scikit_build_core.build"

[project]
name = "xla-op"
version = "0.1"
requires-python = ">=3.11"
dependencies = ["jax>=0.7,<0.10"]
""",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(xla_op LANGUAGES CXX)\n",
    "src/op.cc": '#include "xla/ffi/api/ffi.h"\n#include <nanobind/nanobind.h>\n',
    "src/xla_op/__init__.py": "",
}

CIBUILDWHEEL = {
    "pyproject.toml": _SETUPTOOLS
    + """
[project]
name = "settings"
version = "0.1"
requires-python = ">=3.9"

[project.optional-dependencies]
test = ["pytest>=8", "hypothesis"]

[tool.cibuildwheel]
build = "cp3{9,10,11,13}-*"
skip = ["*-musllinux_*", "cp39-*"]
archs = ["x86_64", "aarch64", "ppc64le"]
build-frontend = "build[uv]"
build-verbosity = 1
test-extras = "test"
test-requires = ["numpy"]
test-command = "pytest {project}/tests -q"
before-build = "pip install 'cmake>=3.20' ninja"
environment = { WITH_SIMD = "1", PATH = "$PATH:/opt/tool" }
config-settings = { "build-option" = "--fast" }
repair-wheel-command = "auditwheel repair --exclude libfoo.so.1 --strip -w {dest_dir} {wheel}"
manylinux-x86_64-image = "manylinux_2_28"

[tool.cibuildwheel.linux]
before-all = "apt-get update && apt-get install -y libpng-dev"

[tool.cibuildwheel.macos]
environment = { MACOSX_DEPLOYMENT_TARGET = "11.0" }

[[tool.cibuildwheel.overrides]]
select = "cp313-*"
test-command = "true"
""",
    "src/settings/__init__.py": "",
    "src/settings/wheels/fast.cpp": "#include <Python.h>\n",
    "tests/test_it.py": "",
}

MANYLINUX = {
    "pyproject.toml": _SETUPTOOLS
    + """
[project]
name = "images"
requires-python = ">=3.10"
version = "1"

[tool.cibuildwheel.linux]
archs = ["x86_64"]
before-all = "yum install -y libpng-devel"
manylinux-x86_64-image = "registry.example/team/manylinux_2_28:1"
""",
    "images.c": "#include <Python.h>\n#include <zlib.h>\n",
}

BAKE_FILE = {
    "pyproject.toml": _SETUPTOOLS + '\n[project]\nname = "baked"\nversion = "1"\nrequires-python = ">=3.11"\n',
    "docker-bake.hcl": """variable "CUDA_VERSION" { default = "12.8.0" }
variable "CUDA_ARCHS" { default = "80;90" }
variable "REGISTRY" { default = "registry.example/team" }
group "default" { targets = ["wheel"] }
target "wheel" {
  name = "wheel-${replace(py, ".", "")}-${replace(cuda, ".", "")}"
  matrix = {
    py = ["3.11", "3.12", "3.13"]
    cuda = ["13.0.3", CUDA_VERSION]
    flavour = ["a", "b"]
  }
  platforms = ["linux/amd64", "linux/arm64"]
  args = { PYTHON_VERSION = py }
  output = ["type=local,dest=out"]
}
""",
    "CMakeLists.txt": "project(baked CXX CUDA)\n",
    "src/baked/__init__.py": "",
    "src/k.cu": "",
}

IN_TREE_BACKEND = {
    "pyproject.toml": """[build-system]
requires = ["scikit-build-core", "cython"]
build-backend = "backend"
backend-path = ["_build"]

[project]
name = "in-tree"
version = "1"
""",
    "_build/backend.py": TRAP,
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.15)\nproject(in_tree C)\n",
    "in_tree.py": "",
    "core.c": "",
}

PURE = {
    "pyproject.toml": """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "pure-python"
version = "1"
requires-python = ">=3.10"
""",
    "src/pure_python/__init__.py": "",
}

SUBFOLDER = {
    "README.md": "",
    "python/pkg/pyproject.toml": _SETUPTOOLS + '\n[project]\nname = "inner"\nversion = "1"\n',
    "python/pkg/inner.c": "",
    "docs/pyproject.toml": '[project]\nname = "docs"\n',
}

POETRY = {
    "pyproject.toml": """[build-system]
requires = ["poetry-core"]
build-backend = "poetry.core.masonry.api"

[tool.poetry]
name = "poem"
version = "1"

[tool.poetry.dependencies]
python = "^3.11"
""",
    "poem/__init__.py": "",
    "poem/fast.c": "",
}

PROJECTS: Mapping[str, Mapping[str, str]] = {
    "legacy": LEGACY,
    "abi3": ABI3,
    "py3": EVERY_PYTHON,
    "scikit-build-core": SCIKIT_BUILD_CORE,
    "nanobind-cuda": NANOBIND_CUDA,
    "meson": MESON,
    "maturin": MATURIN,
    "setuptools-rust": SETUPTOOLS_RUST,
    "torch": TORCH,
    "jax": JAX,
    "cibuildwheel": CIBUILDWHEEL,
    "manylinux": MANYLINUX,
    "bake-file": BAKE_FILE,
    "in-tree-backend": IN_TREE_BACKEND,
    "pure": PURE,
    "subfolder": SUBFOLDER,
    "poetry": POETRY,
}


def made(root: Path, files: Mapping[str, str] | None = None, base: BaseChoice | None = None) -> Checked:
    """Return what ``init`` writes for a folder with these files, with the first answer to each question."""
    tree = scan(write_files(root, files or {}))
    source = next(iter(candidates(tree)), "")
    target = find_target(tree, pyproject=False)
    return make_recipe(tree, source, target, base, lambda _question, options: options[0])
