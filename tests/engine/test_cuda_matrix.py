"""The CUDA example with every source of a compiler. `make test` bakes one release, in test_workspace.py.

BAKERY_MATRIX_WHEELS names a folder that receives the wheels, one subfolder for each row: no GPU is needed to make
them, and where there is one they are run.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest
from command import Done, bakery
from projects import cuda_example

pytestmark = pytest.mark.engine

MATRIX = (
    ("debian", "11.8.0"),
    ("debian", "12.4.1"),
    ("clang", "12.4.1"),
    ("clang", "12.8.0"),
    ("wheels", "13.0.3"),
    ("wheels", "13.5.0"),
)
"""What each release is compiled by: its nvcc, or clang."""


def check(done: Done, cuda: str, wheels: int) -> None:
    """Every wheel passed the audit, and is for the release's major."""
    assert len(done.wheels) == wheels
    for wheel in done.wheels:
        with zipfile.ZipFile(wheel) as archive:
            told = archive.read("bakery_example_cuda/_build.py").decode()
        assert f"CUDA_MAJOR = {cuda.partition('.')[0]}\n" in told


@pytest.mark.proof
def test_cuda_11_8_on_a_base_whose_own_compilers_are_all_too_new(tmp_path: Path) -> None:
    # trixie: nvcc of bookworm's non-free component, g++-11 of bookworm, and a glibc that CUDA 11.8's headers clash with.
    folder = cuda_example(tmp_path / "cuda", "cuda", python='["3.13"]')
    check(bakery(folder, "wheel", "--set", "CUDA_VERSION=11.8.0"), "11.8.0", 1)


@pytest.mark.proof
@pytest.mark.parametrize(("toolkit", "cuda"), MATRIX)
def test_the_matrix(toolkit: str, cuda: str, tmp_path: Path) -> None:
    done = bakery(cuda_example(tmp_path / "cuda", toolkit), "wheel", "--set", f"CUDA_VERSION={cuda}", timeout_s=3600)
    check(done, cuda, 2)
    if kept := os.environ.get("BAKERY_MATRIX_WHEELS"):
        target = Path(kept) / f"{cuda}-{toolkit}"
        target.mkdir(parents=True, exist_ok=True)
        for wheel in done.wheels:
            shutil.copy(wheel, target)
