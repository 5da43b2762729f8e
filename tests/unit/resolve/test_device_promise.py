"""What device code a recipe promises."""

from pathlib import Path

import plans
import pytest

from bakery.recipe.load import load
from bakery.recipe.models import Builder, Matrix, Native, Override, Recipe, Variable
from bakery.resolve.device_promises import DevicePromise, device_promises
from bakery.resolve.plan import resolve

CUDA = {"CUDA_VERSION": Variable(default="13.0.2"), "ARCHS": Variable(default="80;90-real")}


def promises(root: Path, **builder: object) -> dict[str, DevicePromise]:
    recipe = Recipe(name="demo", variables=CUDA, builder=Builder.model_validate({"toolkit": "cuda", **builder}))
    return device_promises(plans.planned(recipe, root))


@pytest.mark.parametrize("name", ["CUDAARCHS", "CMAKE_CUDA_ARCHITECTURES"])
def test_cmake_lists(tmp_path: Path, name: str) -> None:
    found = promises(tmp_path, environment={name: "${ARCHS}"})
    assert found == {"cp311": DevicePromise("13.0.2", ("sm_80", "sm_90", "compute_80"))}


def test_torch_lists(tmp_path: Path) -> None:
    found = promises(tmp_path, environment={"TORCH_CUDA_ARCH_LIST": "8.0;9.0a+PTX"})
    assert found == {"cp311": DevicePromise("13.0.2", ("sm_80", "sm_90a", "compute_90a"))}


def test_no_list_promises_the_release(tmp_path: Path) -> None:
    nothing = {"cp311": DevicePromise("13.0.2", ())}
    assert promises(tmp_path) == nothing
    # Rules refuse a list that cannot be read, unless the compiler is to expand it.
    assert promises(tmp_path, environment={"CUDAARCHS": "native"}) == nothing
    assert promises(tmp_path, environment={"CUDAARCHS": "all-major"}) == nothing


def test_lists_that_say_the_same_in_their_own_words(tmp_path: Path) -> None:
    lists = {"TORCH_CUDA_ARCH_LIST": "9.0", "CMAKE_CUDA_ARCHITECTURES": "90-real"}
    assert promises(tmp_path, environment=lists) == {"cp311": DevicePromise("13.0.2", ("sm_90",))}
    lists = {"TORCH_CUDA_ARCH_LIST": "9.0 8.0+PTX", "CUDAARCHS": "80;90-real"}
    assert promises(tmp_path, environment=lists) == {"cp311": DevicePromise("13.0.2", ("sm_90", "sm_80", "compute_80"))}


def test_the_native_step_makes_the_code(tmp_path: Path) -> None:
    native = Native(command="make", into="src/demo", environment={"CUDAARCHS": "80"})
    builder = Builder(toolkit="cuda", environment={"CUDAARCHS": "90"})
    recipe = Recipe(name="demo", variables=CUDA, builder=builder, native=native)
    promised = device_promises(plans.planned(recipe, tmp_path))
    assert promised == {"cp311": DevicePromise("13.0.2", ("sm_80", "compute_80"))}


@pytest.mark.parametrize("name", ["tilelang", "sageattention", "torch-scatter", "jaxmg"])
def test_shipped_recipes_promise_their_cuda(name: str, tmp_path: Path) -> None:
    plan = resolve(load(name, tmp_path)[0])
    promised = device_promises(plan)
    assert {cell.id: promised[cell.id].cuda for cell in plan.cells} == {
        cell.id: plan.args_of(cell)["CUDA_VERSION"] for cell in plan.cells
    }
    # TileLang's kernels are compiled at run time: it lists no architectures, and its wheel has no device code.
    assert all(bool(promise.archs) is (name != "tilelang") for promise in promised.values())


def test_each_cell_promises_its_own(tmp_path: Path) -> None:
    matrix = Matrix(
        python=("3.11", "3.13"),
        overrides=(Override(where={"python": "3.13"}, variables={"ARCHS": "120", "CUDA_VERSION": "13.1.0"}),),
    )
    builder = Builder(toolkit="cuda", environment={"CUDAARCHS": "${ARCHS}"})
    plan = plans.planned(Recipe(name="demo", variables=CUDA, matrix=matrix, builder=builder), tmp_path)
    assert device_promises(plan) == {
        "cp311": DevicePromise("13.0.2", ("sm_80", "sm_90", "compute_80")),
        "cp313": DevicePromise("13.1.0", ("sm_120", "compute_120")),
    }


def test_without_a_toolkit_nothing_is_promised(tmp_path: Path) -> None:
    assert promises(tmp_path, toolkit="none") == {}
