"""What a failed step lacks: the messages are those of gcc, ld, CMake, meson, cargo, pip's backends and shells."""

from __future__ import annotations

import json
from pathlib import Path

import plans
import pytest

from bakery.runs.buildx.failures import hint
from bakery.runs.buildx.missing import Recipe, _file, messages, of_cell
from bakery.toolchains.components import known

COMPILE = "[compile 1/1] RUN python -m build"
APT = Recipe("apt", name="demo")
SYSTEM, PYTHON = "builder.system-packages = ", "builder.requirements = "
CUDA = "CUDA not found: builder.toolkit"

PRINTED = [
    # Headers: gcc 12, clang 14, meson 1.12, CMake 3.25.
    ("a.c:1:10: fatal error: fftw3.h: No such file or directory", f'fftw3.h not found: {SYSTEM}["libfftw3-dev"]'),
    ("a.c:1:10: fatal error: 'openssl/ssl.h' file not found", f'openssl/ssl.h not found: {SYSTEM}["libssl-dev"]'),
    ("../meson.build:2:24: ERROR: C header 'fftw3.h' not found", f'fftw3.h not found: {SYSTEM}["libfftw3-dev"]'),
    ("  Could not find X using the following files: fftw3.h", f'fftw3.h not found: {SYSTEM}["libfftw3-dev"]'),
    ("a.cpp:1:10: fatal error: pybind11/pybind11.h: No such file or directory", f'{PYTHON}["pybind11"]'),
    ("a.c:1:10: fatal error: frob.h: No such file or directory", "frob.h not found: add its package to builder.sys"),
    ("a.c:1:10: fatal error: Python.h: No such file or directory", "headers of this Python"),
    ("a.cu:1:10: fatal error: cuda_runtime.h: No such file or directory", CUDA),
    ("a.cu:1:10: fatal error: cublas_v2.h: No such file or directory", 'builder.components = ["cublas"]'),
    *(
        (f"a.cu:1:10: fatal error: {header}: No such file or directory", f'builder.components = ["{component}"]')
        for header, component in {
            "cudaProfiler.h": "profiler",
            "cuda_profiler_api.h": "profiler",
            "nvtx3/nvtx3.hpp": "nvtx",
            "nvToolsExt.h": "nvtx",
            "cupti.h": "cupti",
            "nvml.h": "nvml",
            "nppi_color_conversion.h": "npp",
            "nvjpeg.h": "nvjpeg",
            "nvJitLink.h": "nvjitlink",
            "nvFatbin.h": "nvfatbin",
            "nvshmemx.h": "nvshmem",
            "cusparseLt.h": "cusparselt",
            "cusparse.h": "cusparse",
            "curand_kernel.h": "curand",
            "cufftXt.h": "cufft",
            "cufile.h": "cufile",
            "cudnn_frontend_version.h": "cudnn",
            "cusolverDn.h": "cusolver",
            "nccl.h": "nccl",
            "nvrtc.h": "nvrtc",
        }.items()
    ),
    (
        'a.cu(592): error: no suitable conversion function from "const at::DeprecatedTypeProperties" to "c10::ScalarType" exists',
        "x.scalar_type() in AT_DISPATCH",
    ),
    ("/usr/bin/ld: cannot find -lcurand: No such file or directory", 'builder.components = ["curand"]'),
    ("ld.lld: error: unable to find library -lcublasLt", 'builder.components = ["cublas"]'),
    ("mold: fatal: library not found: nvJitLink", 'builder.components = ["nvjitlink"]'),
    ("    CUDA::cublas", 'cublas not found: builder.toolkit = "cuda", builder.components = ["cublas"]'),
    ('  Target "e" links to target "CUDA::nppc" but the target was not found', 'builder.components = ["npp"]'),
    # Sources: ninja 1.11, gcc, clang, Cython, CMake.
    *(
        (line, "a source file of the build is not there")
        for line in (
            "ninja: error: '/src/csrc/a.cpp', needed by '/src/build/a.o', missing and no known rule to make it",
            "cc1plus: fatal error: csrc/a.cpp: No such file or directory",
            "clang: error: no such file or directory: 'csrc/a.cu'",
            "ValueError: 'demo/a.pyx' doesn't match any files",
            "  Cannot find source file:",
        )
    ),
    ("ninja: error: build.ninja:27: multiple rules generate /src/a.o [-w dupbuild=err]", "a.cpp and a.cu: rename"),
    ("ImportError: libcurand.so.10: cannot open shared object file: No such file or directory", "repair.exclude"),
    ("OSError: libnvrtc-builtins.so.13.0: cannot open shared object file: No such file", "wheel.requires"),
    ("a.cpp:1:10: fatal error: torch/extension.h: No such file or directory", 'builder.framework = "torch"'),
    # Headers of the compiler itself.
    *(
        (
            f"a.cpp:1:10: fatal error: {name}: No such file or directory",
            f"the compiler is too old for <{name}>, a header",
        )
        for name in ("format", "span", "ranges", "expected", "print", "mdspan", "version", "stop_token", "hive")
    ),
    (
        "a.cpp:1:10: fatal error: 'format' file not found",
        'C++20 that GCC 13 and newer have: builder.base = "manylinux_2',
    ),
    (
        "../meson.build:2:24: ERROR: C++ header 'generator' not found",
        "C++23 that GCC 14 and newer have: builder.base = ",
    ),
    (
        "a.cpp:1:10: fatal error: flat_map: No such file or directory",
        "GCC 15 and newer have: name an image that has it",
    ),
    ("a.c:1:10: fatal error: stdckdint.h: No such file or directory", "C23 that GCC 14"),
    (
        "a.c:1:10: fatal error: vector: No such file or directory",
        "vector is a header of the C++ standard library: comp",
    ),
    ("a.c:1:10: fatal error: stdio.h: No such file or directory", f'stdio.h not found: {SYSTEM}["libc6-dev"]'),
    # Libraries: GNU ld, lld, mold, meson, CMake, pkg-config, cargo.
    ("/usr/bin/ld: cannot find -lfftw3: No such file or directory", f'the library fftw3 not found: {SYSTEM}["libfftw3'),
    ("/usr/bin/ld: cannot find -lfoo: No such file or directory", "the library foo not found: add its package to"),
    ("ld.lld: error: unable to find library -lz", f'{SYSTEM}["zlib1g-dev"]'),
    ("mold: fatal: library not found: z", f'{SYSTEM}["zlib1g-dev"]'),
    ("../meson.build:2:24: ERROR: C shared or static library 'foo' not found", "the library foo not found"),
    ("--   Package 'fftw3', required by 'virtual:world', not found", f'fftw3 (pkg-config) not found: {SYSTEM}["libff'),
    ("No package 'libffi' found", f'{SYSTEM}["libffi-dev"]'),
    ('../meson.build:2:0: ERROR: Dependency "fftw3" not found (tried pkg-config and cmake)', "libfftw3-dev"),
    ("The system library `openssl` required by crate `openssl-sys` was not found.", "libssl-dev"),
    (
        '  asked CMake to find a package configuration file provided by "Eigen3", but',
        f'Eigen3 not found: {SYSTEM}["libe',
    ),
    ("  Could NOT find BLAS (missing: BLAS_LIBRARIES)", f'BLAS not found: {SYSTEM}["libopenblas-dev"]'),
    ("  Could not find FOO using the following names: foo", "foo not found: add its package"),
    ("  Could NOT find Python (missing: Python_NumPy_INCLUDE_DIRS NumPy)", f'{PYTHON}["numpy"]'),
    # Tools and their versions: scikit-build-core 1.1, meson-python 0.22, CMake, meson, setuptools, flit.
    (
        "x.errors.CMakeNotFoundError: Could not find CMake with version >=3.15",
        f'needs CMake >= 3.15: {PYTHON}["cmake>=3',
    ),
    ("  CMake 3.29 or higher is required.  You are running version 3.25.1", f'needs CMake >= 3.29: {PYTHON}["cmake>=3'),
    ("CMakeNotFoundError: CMake must be installed to build", f'{PYTHON}["cmake"]'),
    ("meson-python: error: Could not find ninja version 1.8.2 or newer.", f'{PYTHON}["ninja>=1.8.2"]'),
    ("x.errors.NinjaNotFoundError: Ninja or make is required to build", f'{PYTHON}["ninja"]'),
    ("../meson.build:1:47: ERROR: Meson version is 1.12.1 but project requires >=9.9", f'{PYTHON}["meson>=9.9"]'),
    ("CMakeConfigError: scikit-build-core version 1.1.2 is too old. Minimum required version is 9.9.", "core>=9.9"),
    ("ValueError: invalid pyproject.toml config: `project.license`.", f'{PYTHON}["setuptools>=77"]'),
    ("ConfigError: license field should be <class 'dict'>, not <class 'str'>", f'{PYTHON}["flit-core>=3.11"]'),
    ("VersionConflict: (setuptools 65.5.0, Requirement.parse('setuptools>=77'))", f'{PYTHON}["setuptools>=77"]'),
    (
        "../meson.build:2:0: ERROR: Dependency lookup: Pkg-config for machine host machine not found. Giving up.",
        "pkg-con",
    ),
    ("error: can't find Rust compiler", "Rust (cargo and rustc) not found: "),
    ("ModuleNotFoundError: No module named 'puccinialin'", "Rust (cargo and rustc) not found: "),
    ("  a@1.0.0 requires rustc 1.99", "a newer Rust"),
    ("  No CMAKE_Fortran_COMPILER could be found.", f'a Fortran compiler not found: {SYSTEM}["gfortran"]'),
    ("../meson.build:1:0: ERROR: Unknown compiler(s): [['gfortran'], ['flang'], ['ifort']]", f'{SYSTEM}["gfortran"]'),
    ("  No CMAKE_CXX_COMPILER could be found.", f'{SYSTEM}["g++"]'),
    # Programs: dash, bash, make, distutils, Python, meson.
    ("/bin/sh: 1: swig: not found", f'the program swig not found: {SYSTEM}["swig"]'),
    ("build.sh: line 3: cmake: command not found", f'{PYTHON}["cmake"]'),
    ("make[1]: nasm: No such file or directory", f'{SYSTEM}["nasm"]'),
    ("error: command 'swig' failed: No such file or directory", f'{SYSTEM}["swig"]'),
    ("FileNotFoundError: [Errno 2] No such file or directory: 'cmake'", f'{PYTHON}["cmake"]'),
    (
        "bakery: FileNotFoundError: [Errno 2] No such file or directory: 'cmake' (/usr/lib/python3.11/subprocess.py:1901)",
        f'{PYTHON}["cmake"]',
    ),
    ("../meson.build:2:0: ERROR: Program 'frob' not found or not executable", "the program frob not found: add"),
    # CUDA: CMake, torch.
    ("  Couldn't find CUDA library root.", CUDA),
    ("  Could NOT find CUDAToolkit (missing: CUDAToolkit_INCLUDE_DIR CUDA_CUDART)", CUDA),
    ("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.", CUDA),
    # Python.
    ("ModuleNotFoundError: No module named 'numpy'", f'the Python module numpy not found: {PYTHON}["numpy"]'),
    ("ModuleNotFoundError: No module named 'poetry'", f'{PYTHON}["poetry-core"]'),
    ("error: invalid command 'bdist_wheel'", f'{PYTHON}["wheel"]'),
    ("LookupError: setuptools-scm was unable to detect version for /src.", "SETUPTOOLS_SCM_PRETEND_VERSION"),
    ("find-python: this base has no Python 3.12", "builder.base"),
    # Submodules: CMake, meson.
    ('  add_subdirectory given source "extern/pybind11" which is not an existing', "git submodule update --init"),
    ("  does not contain a CMakeLists.txt file.", "git submodule update --init"),
    ("../meson.build:2:0: ERROR: Include dir extern/foo/include does not exist.", "git submodule update --init"),
]


@pytest.mark.parametrize(("line", "said"), PRINTED, ids=[line.strip()[:60] for line, _ in PRINTED])
def test_what_is_missing_and_the_line_that_provides_it(line: str, said: str) -> None:
    assert said in hint(["-- before", line, "", "ERROR Backend subprocess exited"], COMPILE, APT)


def test_every_message_is_tested() -> None:
    assert [item for item in messages() if not any(item.found(line) for line, _ in PRINTED)] == []


@pytest.mark.parametrize(
    "line",
    [
        "-- Could NOT find OpenMP (missing: OpenMP_C_FOUND)",
        "Run-time dependency fftw3 found: NO (tried pkg-config and cmake)",
        "FileNotFoundError: [Errno 2] No such file or directory: 'README.md'", "checking for zlib.h... not found",
        "ModuleNotFoundError: No module named 'demo._core'", "    CUDA::cudart", "  CUDA::cublas_static",
    ],
)  # fmt: skip
def test_what_stops_no_build(line: str) -> None:
    assert hint([line], COMPILE, APT) == ""


def test_every_component_has_its_files() -> None:
    assert set(_file().components) == set(known())


def test_the_last_message_counts() -> None:
    lines = ["a.c:1:10: fatal error: yaml.h: No such file or directory", "ModuleNotFoundError: No module named 'numpy'"]
    assert "numpy" in hint(lines, COMPILE, APT)
    assert "yaml.h" in hint(reversed(lines), COMPILE, APT)


def recipe(folder: Path, text: str) -> Recipe:
    plan = plans.written(folder, 'name = "kernels"\n' + text)
    return of_cell(plan, plan.cells[0])


FFTW = ["a.c:1:10: fatal error: fftw3.h: No such file or directory"]
CMAKE = ["CMakeNotFoundError: Could not find CMake with version >=3.29"]


def test_the_line_keeps_what_the_recipe_has(tmp_path: Path) -> None:
    stated = recipe(tmp_path, '[builder]\nsystem-packages = ["git"]\nrequirements = ["cmake>=3.15,<4", "ninja"]\n')
    assert 'system-packages = ["git", "libfftw3-dev"]' in hint(FFTW, COMPILE, stated)
    assert 'requirements = ["ninja", "cmake>=3.29"]' in hint(CMAKE, COMPILE, stated)


def test_an_entry_with_a_comma_stays_one_entry(tmp_path: Path) -> None:
    written = ["foo[a, b]", "bar (>=1, <2)", "baz ; python_version < '3.12'"]
    lines = f"requirements = {json.dumps(written)}\n"
    for table, step in (("builder", "compile"), ("test", "kernels-test")):
        stated = recipe(tmp_path, f"[{table}]\n{lines}")
        said = hint(["ModuleNotFoundError: No module named 'numpy'"], f"[{step} 1/1] RUN x", stated)
        assert said.endswith(f"{table}.requirements = {json.dumps([*written, 'numpy'])}")


def test_advice_that_the_recipe_follows_is_not_given(tmp_path: Path) -> None:
    stated = recipe(
        tmp_path,
        '[variables]\nCUDA_VERSION = "12.8.1"\n'
        '[builder]\ntoolkit = "cuda"\nsystem-packages = ["libfftw3-dev"]\nrequirements = ["cmake>=3.29"]\n',
    )
    assert hint(FFTW, COMPILE, stated) == hint(CMAKE, COMPILE, stated) == ""
    assert hint(["OSError: CUDA_HOME environment variable is not set."], COMPILE, stated) == ""


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ('"debian"', '["libfftw3-dev"]'),
        ('{ image = "quay.io/pypa/manylinux_2_28_x86_64" }', '["fftw-devel"]'),
        ('{ image = "nvidia/cuda:12.8.1-devel-ubuntu24.04" }', '["libfftw3-dev"]'),
        ('"manylinux_2_28"', '["fftw-devel"]'),
        ('"musllinux_1_2"', "add Alpine's package with it to builder.system-packages"),
        ('{ image = "registry.test/team/tools" }', '["libfftw3-dev"] (Debian) or ["fftw-devel"] (Red Hat)'),
    ],
)
def test_package_names_are_those_of_the_base(tmp_path: Path, base: str, said: str) -> None:
    assert hint(FFTW, COMPILE, recipe(tmp_path, f"[builder]\nbase = {base}\n")).endswith(said)


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("[native 1/1] RUN x", 'native.requirements = ["numpy"]'),
        ("[linux/arm64 kernels-test 3/3] RUN x", 'test.requirements = ["numpy"]'),
        ("[linux/arm64 compile 1/1] RUN x", 'builder.requirements = ["numpy"]'),
    ],
)
def test_the_table_is_that_of_the_step(title: str, said: str) -> None:
    assert said in hint(["ModuleNotFoundError: No module named 'numpy'"], title)


def test_a_missing_module_of_the_wheel_is_no_requirement(tmp_path: Path) -> None:
    stated = recipe(tmp_path, '[test]\nimports = ["other.part"]\n')
    for name in ("kernels", "other._core"):
        assert hint([f"ModuleNotFoundError: No module named '{name}'"], "[kernels-test 1/2] RUN x", stated) == ""


def test_advice_is_one_line() -> None:
    assert not [message.advice for message in messages() if "\n" in message.advice]
