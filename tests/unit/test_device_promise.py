"""What device code a recipe promises."""

from pathlib import Path

import pytest

from bakery.api import plan_recipe
from bakery.models import Builder, Matrix, Override, Recipe, Variable
from bakery.rules.device import DevicePromise, device_promises

CUDA = {"CUDA_VERSION": Variable(default="13.0.2"), "ARCHS": Variable(default="80;90-real")}


def promises(root: Path, **builder: object) -> dict[str, DevicePromise]:
    recipe = Recipe(name="demo", variables=CUDA, builder=Builder.model_validate({"toolkit": "cuda", **builder}))
    return device_promises(plan_recipe(recipe, root=root))


@pytest.mark.parametrize("name", ["CUDAARCHS", "CMAKE_CUDA_ARCHITECTURES"])
def test_cmake_lists(tmp_path: Path, name: str) -> None:
    found = promises(tmp_path, environment={name: "${ARCHS}"})
    assert found == {"cp311": DevicePromise("13.0.2", ("sm_80", "sm_90", "compute_80"))}


def test_torch_lists(tmp_path: Path) -> None:
    found = promises(tmp_path, environment={"TORCH_CUDA_ARCH_LIST": "8.0;9.0a+PTX"})
    assert found == {"cp311": DevicePromise("13.0.2", ("sm_80", "sm_90a", "compute_90a"))}


def test_each_cell_promises_its_own(tmp_path: Path) -> None:
    matrix = Matrix(
        python=("3.11", "3.13"),
        overrides=(Override(where={"python": "3.13"}, variables={"ARCHS": "120", "CUDA_VERSION": "13.1.0"}),),
    )
    builder = Builder(toolkit="cuda", environment={"CUDAARCHS": "${ARCHS}"})
    plan = plan_recipe(Recipe(name="demo", variables=CUDA, matrix=matrix, builder=builder), root=tmp_path)
    assert device_promises(plan) == {
        "cp311": DevicePromise("13.0.2", ("sm_80", "sm_90", "compute_80")),
        "cp313": DevicePromise("13.1.0", ("sm_120", "compute_120")),
    }


@pytest.mark.parametrize(
    "builder",
    [
        {},
        {"environment": {"CUDAARCHS": "native"}},
        {"environment": {"CUDAARCHS": "80", "TORCH_CUDA_ARCH_LIST": "9.0"}},
        {"toolkit": "none", "environment": {}},
    ],
    ids=["no list", "an open list", "two lists that differ", "no toolkit"],
)
def test_nothing_is_promised(tmp_path: Path, builder: dict[str, object]) -> None:
    assert promises(tmp_path, **builder) == {}
