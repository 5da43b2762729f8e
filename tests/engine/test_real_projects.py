"""Real projects: what pip builds is baked from what ``wheel-bakery init`` wrote, and is the wheel of pip."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import manylinux_many
import pytest
from command import bakery
from real_projects import (
    GIT_SOURCES,
    OFFLINE_CUFINUFFT,
    PACKAGES,
    Project,
    add_downloads_of_cufinufft,
    backend_packages,
    bake_cuda,
    cuda_projects,
    keep_one_file_of_flash_attn,
    measure,
    native_cells,
    projects,
    told,
)
from real_projects_page import unexplained

pytestmark = pytest.mark.engine

MOST_LINES = 20


@pytest.mark.proof
@pytest.mark.parametrize("name", projects())
def test_the_wheel_of_a_project_is_that_of_pip(
    name: str, debian: str, engine_environment: Mapping[str, str], tmp_path: Path
) -> None:
    assert debian
    project = projects()[name]
    result = asdict(measure(project, engine_environment, tmp_path))
    if not result["pip_refused"]:
        assert unexplained(result) == []
        # A wheel is there only if its audit found nothing.
        assert (result["refused"], result["tested"]) == ("", "imported")
        assert result["lines"] <= MOST_LINES


@pytest.mark.proof
@pytest.mark.skipif(not backend_packages(), reason=f"{PACKAGES} names no folder with test packages of build backends")
@pytest.mark.parametrize("package", backend_packages().values(), ids=lambda package: str(package.key))
def test_the_wheel_of_a_test_package_is_that_of_pip(
    package: Project, debian: str, engine_environment: Mapping[str, str], tmp_path: Path
) -> None:
    assert debian
    assert unexplained(asdict(measure(package, engine_environment, tmp_path))) == []


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


@pytest.mark.proof
@pytest.mark.parametrize("name", [name for name, project in cuda_projects().items() if project.baked])
def test_the_wheel_of_a_cuda_project(name: str, with_python_312: str, tmp_path: Path) -> None:
    done = bake_cuda(cuda_projects()[name], with_python_312, tmp_path)
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
