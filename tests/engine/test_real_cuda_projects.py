"""CUDA projects of others: their recipes as ``wheel-bakery init`` writes them, and wheels for one GPU."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import manylinux_many
import pytest
from command import bakery
from real_projects import (
    GIT_SOURCES,
    OFFLINE_CUFINUFFT,
    add_downloads_of_cufinufft,
    bake_cuda,
    cuda_projects,
    keep_one_file_of_flash_attn,
    native_cells,
    told,
)

pytestmark = pytest.mark.engine


@pytest.mark.proof
@pytest.mark.parametrize("name", cuda_projects())
def test_the_recipe_of_a_cuda_project(name: str, tmp_path: Path) -> None:
    project = cuda_projects()[name]
    found, said = told(project, tmp_path)
    assert found == project.has, said
    assert project.says in said


@pytest.fixture
def with_python_312(debian: str, engine_environment: Mapping[str, str]) -> str:
    """The name of an image in manylinux layout that has the Python of the machine with a GPU."""
    assert debian
    if "cp312-cp312" not in manylinux_many.pythons():
        pytest.skip("pyenv has no Python 3.12 here")
    return manylinux_many.make(engine_environment)


BAKED = {name: project for name, project in cuda_projects().items() if project.baked}
FOR_TORCH = [name for name, project in BAKED.items() if project.kind.startswith("torch")]
"""They compile for minutes each: in one proof, all would take longer than 20."""


@pytest.mark.proof
@pytest.mark.parametrize("name", [name for name in BAKED if name not in FOR_TORCH])
def test_the_wheel_of_a_cuda_project(name: str, with_python_312: str, tmp_path: Path) -> None:
    is_baked(name, with_python_312, tmp_path)


@pytest.mark.proof
@pytest.mark.parametrize("name", FOR_TORCH[0::2])
def test_the_wheel_of_an_extension_of_torch(name: str, with_python_312: str, tmp_path: Path) -> None:
    is_baked(name, with_python_312, tmp_path)


@pytest.mark.proof
@pytest.mark.parametrize("name", FOR_TORCH[1::2])
def test_the_wheel_of_another_extension_of_torch(name: str, with_python_312: str, tmp_path: Path) -> None:
    is_baked(name, with_python_312, tmp_path)


def is_baked(name: str, image: str, folder: Path) -> None:
    """Assert that a project is baked for one GPU."""
    done = bake_cuda(cuda_projects()[name], image, folder)
    # A wheel is there only if its audit found nothing, and its test passed.
    assert done.code == 0, done.err[-4000:]
    assert len(done.wheels) == 1


@pytest.mark.proof
@pytest.mark.skipif(not os.environ.get(GIT_SOURCES), reason=f"{GIT_SOURCES} names no folder with repositories")
def test_a_project_that_needs_github_is_baked_without_network(with_python_312: str, tmp_path: Path) -> None:
    project = cuda_projects()["cufinufft"]
    done = bake_cuda(project, with_python_312, tmp_path, prepare=add_downloads_of_cufinufft, edits=OFFLINE_CUFINUFFT)
    assert done.code == 0, done.err[-4000:]
    assert len(done.wheels) == 1


@pytest.mark.proof
def test_a_kernel_of_flash_attn_keeps_to_the_memory_of_one_nvcc(with_python_312: str, tmp_path: Path) -> None:
    project = cuda_projects()["flash-attn"]
    done = bake_cuda(project, with_python_312, tmp_path, "wheel", keep_one_file_of_flash_attn)
    assert done.code == 0, done.err[-4000:]
    (chosen,) = native_cells(done.folder)
    commands = json.loads(bakery(done.folder, "profile", chosen["id"], "--json").out)["commands"]
    (mb,) = [item["mb"] for item in commands if "flash_fwd" in item["name"] and item["kind"] == "compile"]
    print(f"one kernel of flash-attn: {mb} MB")
    # What init reserves for each compiler (job-memory), so that as many run as fit.
    assert 500 < mb <= 8000
    recipe = tomllib.loads((done.folder / "bakery.toml").read_text(encoding="utf-8"))
    assert recipe["builder"]["job-memory"] == "8 GB"
