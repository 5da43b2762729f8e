"""Every recipe in rules.toml breaks the rule it is named after, with exactly the text beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import plans
import pytest
from tables import GoldenRow, rows

from bakery.engine.client import exports
from bakery.init.stable_abi import read_project
from bakery.plan.model import Plan
from bakery.resolve.rules import judge, rules
from bakery.resolve.rules.cache_use import Host
from bakery.resolve.rules.findings import lines, refusal
from bakery.resolve.rules.rule import Finding, Severity
from bakery.runs.source_files import source_of

TABLE = Path(__file__).with_name("rules.toml")
ROWS = rows(TABLE)
HOST = Host(memory=16 * 10**9)
"""The machine that would build them."""

HOSTS = {
    "cache-engine": Host(exports=exports("docker", "overlay2"), engine="driver docker"),
    "cache-engine-s3": Host(exports=exports("docker", "containerd"), engine="driver docker"),
    "cache-gha-token": Host(lacking=("ACTIONS_RUNTIME_TOKEN", "ACTIONS_CACHE_URL")),
    "cache-token-life-short": Host(token_s=600),
}
"""Machines that break rules by what they lack."""

PYPROJECT = {"pyproject.toml": '[project]\nname = "kernels"\nversion = "1.0"\ndependencies = ["numpy"]\n'}
CMAKE = (
    "cmake_minimum_required(VERSION 3.26)\nproject(kernels LANGUAGES CXX CUDA)\nadd_library(kernels a.cu)\n"
    "set_target_properties(kernels PROPERTIES CUDA_SEPARABLE_COMPILATION ON)\n"
)
SOURCES = {
    "clang-separable": {**PYPROJECT, "CMakeLists.txt": CMAKE},
    "cuda-sources": {**PYPROJECT, "CMakeLists.txt": CMAKE},
    "torch-standard": {
        "setup.py": 'Extension("k", ["k.cpp"], extra_compile_args=["-std=c++17"])\n',
        "k.cpp": "",
        "CMakeLists.txt": "set(CMAKE_CXX_STANDARD 17)\nset(CMAKE_CUDA_STANDARD 20)\nif(OLD)\n  set(CMAKE_CXX_STANDARD 14)\nendif()\n"
        "set_target_properties(k PROPERTIES CXX_STANDARD 14 CUDA_STANDARD 17)\n",
    },
    "torch-standard-setup": {
        "setup.py": "from torch.utils.cpp_extension import CUDAExtension\nFLAGS = ['-O3', '-std=c++17']\n"
        "CUDAExtension('k', ['k.cu'], extra_compile_args={'cxx': FLAGS, 'nvcc': [*FLAGS, '-std=c++17']})\n",
        "k.cu": "",
    },
    "torch-arch-ignored": {
        "setup.py": "FLAGS = ['-gencode=arch=compute_80,code=sm_80', '-gencode=arch=compute_90,code=sm_90']\n"
    },
    "torch-arch-ignored-unknown": {
        "setup.py": "FLAGS = [f'-gencode=arch=compute_{arch},code=sm_{arch}' for arch in ARCHS]\n"
    },
    "framework-pins": {"pyproject.toml": '[build-system]\nrequires = [\n  "setuptools",\n  "torch==2.14.0",\n]\n'},
    "missing-sources": {
        **PYPROJECT,
        "setup.py": "Extension('k', ['csrc/k.cpp', 'k.c', 'k2.c'])\n",
        "k.pyx": "",
        "k2.c": "",
    },
    "nightly-version": {"pyproject.toml": '[project]\nname = "kernels"\nversion = "1.2.0"\n'},
    "project-file": {"README.md": ""},
    "test-files": {**PYPROJECT, "tests/run.py": "", "data/large.bin": ""},
    "test-program": {"setup.py": ""},
    "test-program-unlisted": PYPROJECT,
    "source-names": {**PYPROJECT, os.fsdecode(b"data/caf\xe9.txt"): ""},
    "source-beyond": {
        "python/pyproject.toml": '[project]\nname = "a"\nversion = "1"\n[tool.scikit-build]\ncmake.source-dir = "../csrc"\n',
        "python/CMakeLists.txt": "add_subdirectory(../csrc build)\ninstall(TARGETS a DESTINATION ../csrc)\n",
        "csrc/CMakeLists.txt": "",
    },
    "source-links": {
        "python/pyproject.toml": PYPROJECT["pyproject.toml"],
        "LICENSE": "",
        "python/LICENSE": "-> ../LICENSE",
    },
    "tracked-results": {**PYPROJECT, "wheels/__init__.py": ""},
    "lfs-pointers": {
        **PYPROJECT,
        "data/x.bin": f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1048576\n",
    },
    "git-commit": {**PYPROJECT, ".git": "gitdir: nowhere\n"},
    "script-line-ends": {**PYPROJECT, "scripts/prepare.sh": "#!/bin/sh\r\necho\r\n"},
    "file-times": {**PYPROJECT, "src/build.c": "const char *when = __TIMESTAMP__;\n"},
    "one-wheel-for-pythons-setup": {
        "setup.py": 'from setuptools import setup\nTAG = "cp312"\nsetup(options={"bdist_wheel": {"py_limited_api": TAG}})\n'
    },
    "git-submodules": {**PYPROJECT, ".gitmodules": '[submodule "fmt"]\n\tpath = extern/fmt\n\turl = ../fmt\n'},
}
"""The files of the source folder, for rules about them."""

IDS = tuple(rule.id for rule in rules())


def rule_of(name: str) -> str:
    """``image-name-cuda`` is a second recipe for rule ``image-name``."""
    return max((item for item in IDS if name == item or name.startswith(item + "-")), key=len, default="")


def rendered(plan: Plan, findings: Sequence[Finding]) -> str:
    errors = [finding for finding in findings if finding.rule.severity is Severity.ERROR]
    text = []
    if errors:
        error = refusal(plan.recipe, errors, len(plan.cells) + len(plan.cibuildwheel_cells))
        text = [f"{error.title} (exit {error.exit_code}): {error.message}", *error.details, f"→ {error.hint}"]
    warnings = lines(findings[len(errors) :], len(plan.cells) + len(plan.cibuildwheel_cells))
    text += ["warnings:", *warnings] if warnings else []
    return "\n".join(text) + "\n"


@pytest.mark.parametrize("name", ROWS)
def test_rule(name: str, tmp_path: Path, golden_row: GoldenRow) -> None:
    text = ROWS[name]["recipe"]
    sets = [line.removeprefix("# --set ") for line in text.splitlines() if line.startswith("# --set ")]
    plan, host = plans.written(tmp_path, text, *sets), HOSTS.get(name, HOST)
    for file, content in SOURCES.get(name, {}).items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        if content.startswith("-> "):
            (tmp_path / file).symlink_to(content.removeprefix("-> "))
        else:
            (tmp_path / file).write_text(content, newline="")
    findings = judge(plan, host, read_project(plan, source_of(tmp_path, plan)) if name in SOURCES else None)
    assert rule_of(name) in {finding.rule.id for finding in findings}
    golden_row(TABLE, name, rendered(plan, findings).replace(str(tmp_path), "PROJECT"))


def test_every_rule_has_its_text() -> None:
    assert set(IDS) == {rule_of(name) for name in ROWS}
