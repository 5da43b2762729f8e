"""A cache may only shorten what a clean build gives: projects change at random, and cached wheels are those of clean builds.

The builds run in a builder image with the programs, folders and variables of a compile step (`tests/mutation/run.py`), so
that one takes about a second. `test_whole_wheels` runs the whole command, with and without ``--no-cache``.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import ROOT, bakery, digests, shell

pytestmark = pytest.mark.engine

RECIPE = """\
name = "mutated"
[matrix]
python = ["3.11"]
[builder]
base = "debian"
"""

CUDA = """\
toolkit = "cuda"
[variables]
CUDA_VERSION = { default = "13.0.3", description = "CUDA release" }
"""

SEED = "15"
"""Of the 40."""

PYPROJECT = """\
[build-system]
requires = ["setuptools", "scikit-build-core", "meson-python", "cmake", "ninja", "cython"]
build-backend = "setuptools.build_meta"
[project]
name = "mutated"
version = "1.0"
"""

SETUP = """\
from setuptools import Extension, setup
setup(ext_modules=[Extension("_mutated", ["a.c"])])
"""

START = """\
cp -r /programs/. /usr/local/bin && chmod -R 0755 /usr/local/bin && mkdir -p /var/cache/slots && cd /mutation && umask 022
exec with-ccache with-jobs 3500MB auto python run.py "$@"
"""

VARIABLES = {
    "CCACHE_STATSLOG": "/tmp/ccache.log",
    "PYTORCH_NVCC": "/usr/local/bin/nvcc-ccache",
    "PYTHONDONTWRITEBYTECODE": "1",
    "SKBUILD_BUILD_DIR": "/tmp/build",
    "SOURCE_DATE_EPOCH": "1700000000",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a project whose builder has all build backends."""
    return with_backends(tmp_path_factory.mktemp("mutated"), RECIPE)


def with_backends(folder: Path, recipe: str) -> Path:
    """Write the project; return its folder."""
    for name, text in {"bakery.toml": recipe, "pyproject.toml": PYPROJECT, "setup.py": SETUP, "a.c": ""}.items():
        (folder / name).write_text(text)
    return folder


def mutate(project: Path, environment: Mapping[str, str], image: str, *words: str) -> dict[str, int]:
    """Run mutations in the builder image; return the summary."""
    bakery(project, "dev")
    mounts = (
        *("-v", f"{ROOT}/bakery/toolchains/programs:/programs:ro"),
        *("-v", f"{ROOT}/tests/mutation:/mutation:ro"),
    )
    variables = [word for item in VARIABLES.items() for word in ("-e", "=".join(item))]
    command = ("docker", "run", "--rm", "--network", "none", *mounts, *variables, f"{image}:dev-cp311")
    out = shell(environment, *command, "sh", "-c", START, "sh", *words, timeout_s=6 * 3600)
    summary: dict[str, int] = json.loads(out.splitlines()[-1])
    return summary


def test_forty_mutations(project: Path, engine_environment: Mapping[str, str]) -> None:
    # Of these, one changes a linker script that only an option of a link with LTO names: D3 of 2026-11 makes it fail.
    summary = mutate(project, engine_environment, "mutated", "--count", "40", "--seed", SEED)
    assert (summary["mutations"], summary["differences"]) == (40, 0)
    assert summary["hits"] > 0
    assert summary["failed builds"] < 10


@pytest.mark.proof
def test_three_thousand_mutations(project: Path, engine_environment: Mapping[str, str]) -> None:
    count, seed = os.environ.get("MUTATIONS", "3000"), os.environ.get("MUTATION_SEED", "1")
    summary = mutate(project, engine_environment, "mutated", "--count", count, "--seed", seed)
    assert (summary["mutations"], summary["differences"]) == (int(count), 0)
    assert summary["hits"] > int(count) // 4


@pytest.mark.proof
def test_mutations_of_cuda(tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    """The twelfth shape, which needs nvcc."""
    project = with_backends(tmp_path, RECIPE.replace('"mutated"', '"mutated-cuda"') + CUDA)
    count, seed = os.environ.get("CUDA_MUTATIONS", "200"), os.environ.get("MUTATION_SEED", "1")
    words = ("--shape", "setuptools-cuda", "--count", count, "--seed", seed)
    summary = mutate(project, engine_environment, "mutated-cuda", *words)
    assert (summary["mutations"], summary["differences"]) == (int(count), 0)
    assert summary["hits"] > int(count) // 4


MODULE = """\
#include <Python.h>
#if __has_include("maybe.h")
#include "maybe.h"
#endif
#if __has_include(<zstd.h>)
#define PACKAGE 2
#endif
#ifndef MAYBE
#define MAYBE 0
#endif
#ifndef PACKAGE
#define PACKAGE 0
#endif
__asm__(".section .rodata\\nblob:\\n.incbin\\t\\"data.bin\\"\\n.byte 0\\n.text\\n");
extern const char blob[] __attribute__((visibility("hidden")));
int maybe = MAYBE, package = PACKAGE;
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_mutated", blob, -1, NULL};
PyMODINIT_FUNC PyInit__mutated(void) { return PyModule_Create(&module); }
"""


def test_whole_wheels(tmp_path: Path) -> None:
    """A header, a file of the assembler, a package and a linker script appear or change; the whole command is run."""
    folder = tmp_path / "project"
    folder.mkdir()
    setup = SETUP.replace('["a.c"]', '["a.c"], extra_compile_args=["-flto"], extra_link_args=["-flto", "-Wl,-Tx.ld"]')
    script = "SECTIONS { .demo : { BYTE(@) } } INSERT AFTER .data;\n"
    files = {"bakery.toml": RECIPE, "setup.py": setup, "a.c": f"{MODULE}/* {uuid.uuid4()} */\n", "data.bin": "A"}
    files |= {
        "pyproject.toml": PYPROJECT.replace(', "scikit-build-core", "meson-python", "cmake", "ninja", "cython"', "")
    }
    files["x.ld"] = script.replace("@", "1")
    for name, text in files.items():
        (folder / name).write_text(text)
    bakery(folder, "wheel")
    for name, text in {
        "maybe.h": "#define MAYBE 1\n",
        "data.bin": "B",
        "x.ld": script.replace("@", "2"),
        "bakery.toml": RECIPE + 'system-packages = ["libzstd-dev"]\n',
    }.items():
        before = digests(folder / "dist")
        (folder / name).write_text(text)
        bakery(folder, "wheel")
        assert digests(folder / "dist") != before, name
    cached = digests(folder / "dist")
    bakery(folder, "wheel", "--no-cache")
    assert digests(folder / "dist") == cached
