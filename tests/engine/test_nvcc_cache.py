"""nvcc behind the compiler cache, called as torch's `cpp_extension` calls it: by its path, with options of its own."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from command import bakery, digests
from projects import extension

pytestmark = pytest.mark.engine

SETUP = """\
import os
import shlex
import subprocess

from setuptools.command.build_ext import build_ext

# torch 2.11's words for a file, and its line of ninja.
FLAGS = '''
-DTORCH_EXTENSION_NAME=_core -D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__
-D__CUDA_NO_BFLOAT16_CONVERSIONS__ -D__CUDA_NO_HALF2_OPERATORS__ --expt-relaxed-constexpr --compiler-options -fPIC
-DTORCH_API_INCLUDE_EXTENSION_H -O3 -lineinfo --threads=4
-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=compute_90 -std=c++17
'''


class Build(build_ext):
    def build_extension(self, ext):
        home = os.environ["CUDA_HOME"]
        nvcc = os.environ.get("PYTORCH_NVCC") or f"{home}/bin/nvcc"
        os.makedirs(self.build_temp, exist_ok=True)
        for name in ("one", "two", "three"):
            source, target = os.path.abspath(f"src/{name}.cu"), os.path.abspath(f"{self.build_temp}/{name}.o")
            words = f"{nvcc} --generate-dependencies-with-compile --dependency-output {target}.d -I{home}/include"
            subprocess.run(shlex.split(f"{words} {FLAGS} -c {source} -o {target}"), check=True)
            with open(f"{target}.d") as file:
                listed = file.read()
            # ninja reads these.
            assert listed.startswith(target) and source in listed and "value.cuh" in listed, listed
            ext.extra_objects.append(target)
        # torch's name for the compiler of C++; Debian's package of ccache has no link of this name.
        subprocess.run(["c++", "-fPIC", "-O2", "-c", "src/plain.cpp", "-o", f"{self.build_temp}/plain.o"], check=True)
        ext.extra_objects.append(f"{self.build_temp}/plain.o")
        super().build_extension(ext)
"""

KERNEL = """\
#include "value.cuh"
__global__ void @_kernel(float *data, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) data[index] *= VALUE;
}
int @() { void (*kernel)(float *, int) = @_kernel; return kernel ? VALUE : 0; }
"""

SOURCE = """\
#include <Python.h>

int one();
int two();
int three();
static PyObject *answer(PyObject *, PyObject *) { return PyLong_FromLong(one() * two() * three()); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit__core() { return PyModuleDef_Init(&module); }
"""

RECIPE = """\
name = "tiny"
[variables]
CUDA_VERSION = "13.0.3"
[matrix]
python = ["3.11"]
[builder]
toolkit = "cuda"
compiler-cache = @
[wheel.repair]
exclude = ["libcudart.so.*"]
strip = true
"""


def project(folder: Path, cache: str = "true") -> Path:
    """Write an extension of three kernels and a module; nothing of it was ever compiled."""
    extension(folder, RECIPE.replace("@", cache), SOURCE, setup=SETUP)
    text = (folder / "setup.py").read_text()
    linked = "language='c++', libraries=['cudart'])], cmdclass={'build_ext': Build})"
    (folder / "setup.py").write_text(text.replace("language='c++')])", linked))
    for name in ("one", "two", "three"):
        (folder / "src" / f"{name}.cu").write_text(KERNEL.replace("@", name))
    (folder / "src" / "plain.cpp").write_text("int plain() { return 4; }\n")
    (folder / "src" / "value.cuh").write_text("#define VALUE 2\n")
    (folder / "src" / "core.cpp").write_text(f"{SOURCE}// {uuid.uuid4()}\n")
    return folder


@pytest.mark.proof
def test_after_a_change_in_one_file_nvcc_compiles_that_one(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    first = bakery(folder, "wheel")
    assert first.results()["wheel-cp311"]["compiler_cache"] == {"compilations": 5, "hits": 0}
    # nvcc tells how long it took for each architecture, although that is no part of what ccache knows the files by.
    phases = json.loads(bakery(folder, "profile", "cp311", "--json").out)["phases"]
    assert {("cicc", "compute_80"), ("ptxas", "sm_80"), ("cicc", "compute_90")} <= {
        (phase["name"], phase["architecture"]) for phase in phases if phase["seconds"] > 0
    }
    changed = folder / "src" / "two.cu"
    changed.write_text(changed.read_text().replace("*=", "+="))
    again = bakery(folder, "wheel")
    assert again.results()["wheel-cp311"]["compiler_cache"] == {"compilations": 5, "hits": 4}


@pytest.mark.proof
def test_after_a_change_in_code_of_the_host_its_device_code_is_taken(tmp_path: Path) -> None:
    """ccache itself takes the object of the same device code."""
    folder = project(tmp_path / "project")
    bakery(folder, "wheel")
    before, changed = digests(folder / "dist"), folder / "src" / "two.cu"
    changed.write_text(changed.read_text().replace("kernel ? VALUE", "kernel ? 7 * VALUE"))
    again = bakery(folder, "wheel")
    assert again.results()["wheel-cp311"]["compiler_cache"] == {"compilations": 5, "hits": 4}
    after = digests(folder / "dist")
    assert before.keys() == after.keys()
    assert before != after


@pytest.mark.proof
def test_gpus_that_the_build_does_not_read_are_told_after_the_first_file(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    recipe = folder / "bakery.toml"
    recipe.write_text(f'{recipe.read_text()}[builder.environment]\nCUDAARCHS = "80-real;90-real"\n')
    run = bakery(folder, "wheel", code=8)
    told = run.err.index("nvcc compiled src/one.cu not for sm_90, unlike the recipe's list of GPUs")
    assert told < run.err.index("did not pass the audit")


@pytest.mark.proof
def test_the_cache_changes_no_byte_of_a_wheel(tmp_path: Path) -> None:
    cached, bare = project(tmp_path / "cached"), project(tmp_path / "bare", "false")
    (bare / "src" / "core.cpp").write_text((cached / "src" / "core.cpp").read_text())
    for folder in (cached, bare):
        bakery(folder, "wheel")
    with_cold_cache = digests(cached / "dist")
    assert with_cold_cache == digests(bare / "dist")
    # All objects come from the cache now.
    (cached / "fresh.txt").write_text("new\n")
    warm = bakery(cached, "wheel")
    assert warm.results()["wheel-cp311"]["compiler_cache"] == {"compilations": 5, "hits": 5}
    assert digests(cached / "dist") == with_cold_cache


@pytest.mark.proof
def test_options_in_variables_of_nvcc_are_options(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    bakery(folder, "wheel")
    recipe = folder / "bakery.toml"
    recipe.write_text(f'{recipe.read_text()}[builder.environment]\nNVCC_APPEND_FLAGS = "--use_fast_math"\n')
    again = bakery(folder, "wheel")
    assert again.results()["wheel-cp311"]["compiler_cache"] == {"compilations": 5, "hits": 0}


def counts(folder: Path) -> tuple[int, int]:
    """Build the wheel; return compilations, which are parts of files with sccache, and hits."""
    count = bakery(folder, "wheel").results()["wheel-cp311"]["compiler_cache"]
    assert isinstance(count, dict)
    return count["compilations"], count["hits"]


@pytest.mark.proof
def test_sccache_compiles_only_an_architecture_that_is_new(tmp_path: Path) -> None:
    folder, other = project(tmp_path / "project", '"sccache"'), project(tmp_path / "other", '"sccache"')
    (other / "src" / "core.cpp").write_text((folder / "src" / "core.cpp").read_text())
    parts, hits = counts(folder)
    assert parts > 5
    assert hits == 0
    cold = digests(folder / "dist")
    (folder / "fresh.txt").write_text("new\n")
    assert counts(folder) == (parts, parts)
    assert digests(folder / "dist") == cold
    # Another checkout has a cache of its own.
    assert counts(other) == (parts, 0)
    assert digests(other / "dist") == cold
    setup = folder / "setup.py"
    setup.write_text(setup.read_text().replace("-std=c++17", "-gencode=arch=compute_100,code=sm_100 -std=c++17"))
    more, hits = counts(folder)
    assert more > parts
    assert hits >= 7, (parts, more, hits)
