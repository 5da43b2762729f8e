"""A cache may only shorten what a clean build gives: projects change at random, and cached wheels are those of clean builds.

The builds run in a builder image with the programs, folders and variables of a compile step (`tests/mutation/run.py`), so
that one takes about a second. `test_whole_wheels` runs the whole command, with what is in its caches and with empty ones.
"""

from __future__ import annotations

import json
import os
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import ROOT, bakery, digests, shell

from bakery.engine.cache_scope import KEY_VARIABLE

pytestmark = [pytest.mark.engine, pytest.mark.proof]

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


def test_mutations_of_a_sample(project: Path, engine_environment: Mapping[str, str]) -> None:
    """One of each of five shapes; `test_mutations_of_all_shapes` is the proof."""
    summary = mutate(project, engine_environment, "mutated", "--count", "5", "--seed", "15")
    assert (summary["mutations"], summary["differences"]) == (5, 0)
    assert summary["hits"] > 0
    assert summary["failed builds"] < 4


def test_mutations_of_all_shapes(project: Path, engine_environment: Mapping[str, str]) -> None:
    count, seed = os.environ.get("MUTATIONS", "300"), os.environ.get("MUTATION_SEED", "1")
    summary = mutate(project, engine_environment, "mutated", "--count", count, "--seed", seed)
    assert (summary["mutations"], summary["differences"]) == (int(count), 0)
    assert summary["hits"] > int(count) // 4


def test_mutations_of_cuda(tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    """The twelfth shape, which needs nvcc."""
    project = with_backends(tmp_path, RECIPE.replace('"mutated"', '"mutated-cuda"') + CUDA)
    count, seed = os.environ.get("CUDA_MUTATIONS", "30"), os.environ.get("MUTATION_SEED", "1")
    words = ("--shape", "setuptools-cuda", "--count", count, "--seed", seed)
    summary = mutate(project, engine_environment, "mutated-cuda", *words)
    assert (summary["mutations"], summary["differences"]) == (int(count), 0)
    assert summary["hits"] > int(count) // 4


MODULE = """\
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_mutated", NULL, -1, NULL};
PyMODINIT_FUNC PyInit__mutated(void) { return PyModule_Create(&module); }
"""

HEADER = """\
#if __has_include("maybe.h")
#include "maybe.h"
#else
#define MAYBE "no header"
#endif
const char *maybe = MAYBE;
"""

PACKAGE = """\
#if __has_include(<zstd.h>)
const char *package = "zstd.h is there";
#else
const char *package = "no package";
#endif
"""

BLOB = """\
__asm__(".section .rodata\\nblob:\\n.incbin\\t\\"data.bin\\"\\n.byte 0\\n.text\\n");
"""

SCRIPT = "SECTIONS { .demo : { BYTE(@) } } INSERT AFTER .data;\n"


def test_whole_wheels(tmp_path: Path) -> None:
    """A header, a file of the assembler, a linker script and a package appear or change; the whole command is run.

    Each has a source file, or a module, of its own: no change hides that another one was not seen.
    """
    folder = tmp_path / "project"
    folder.mkdir()
    sources = {"a.c": MODULE, "header.c": HEADER, "package.c": PACKAGE, "blob.c": BLOB}
    options = 'extra_compile_args=["-flto"], extra_link_args=["-flto"'
    first = f'Extension("_mutated", {list(sources)}, {options}])'
    setup = SETUP.replace(
        'Extension("_mutated", ["a.c"])', f'{first}, Extension("_linked", ["b.c"], {options}, "-Wl,-Tx.ld"])'
    )
    sources["b.c"] = MODULE.replace("_mutated", "_linked")
    pyproject = PYPROJECT.replace(', "scikit-build-core", "meson-python", "cmake", "ninja", "cython"', "")
    files = {name: f"{text}/* {uuid.uuid4()} */\n" for name, text in sources.items()}
    files |= {"bakery.toml": RECIPE, "setup.py": setup, "pyproject.toml": pyproject}

    def built(changed: Mapping[str, str], environment: Mapping[str, str] | None = None) -> tuple[bytes, bytes]:
        for name, text in changed.items():
            (folder / name).write_text(text)
        (wheel,) = bakery(folder, "wheel", environment=environment).wheels
        with zipfile.ZipFile(wheel) as archive:
            linked, mutated = sorted(name for name in archive.namelist() if name.endswith(".so"))
            return archive.read(linked), archive.read(mutated)

    linked, mutated = built(files | {"data.bin": "first data", "x.ld": SCRIPT.replace("@", "1")})
    for text in (b"no header", b"no package", b"first data"):
        assert text in mutated
    edited = {"maybe.h": '#define MAYBE "the header"\n', "data.bin": "second data", "x.ld": SCRIPT.replace("@", "2")}
    linked_again, mutated = built(edited)
    assert linked_again != linked
    for text in (b"the header", b"no package", b"second data"):
        assert text in mutated
    last = built({"bakery.toml": RECIPE + 'system-packages = ["libzstd-dev"]\n'})
    assert b"zstd.h is there" in last[1]
    cached = digests(folder / "dist")
    # The caches of steps have another name, so that they are empty.
    assert built({}, {KEY_VARIABLE: uuid.uuid4().hex}) == last
    assert digests(folder / "dist") == cached
