"""Stable ABI: one cell builds the wheel, all the Pythons that it serves test it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from plans import plan_with
from pydantic import ValidationError

from bakery.cli.tables.plan import to_json
from bakery.core.errors import AuditError, UsageError
from bakery.emit.bakefile import bake_groups, bakefile
from bakery.emit.dockerfile import dockerfile
from bakery.emit.files import generate
from bakery.plan.dockerfile import Arg, Command, Run
from bakery.plan.model import Plan
from bakery.plan.values import Ref, Value
from bakery.runs.expectations import promises

PYTHONS = ["3.9", "3.11", "3.13", "3.14"]


def shared(*sets: str, floor: str = "3.11", **recipe: object) -> Plan:
    return plan_with(*sets, **{"matrix": {"python": PYTHONS}, "wheel": {"abi3": floor}, **recipe})


def names(plan: Plan, *groups: str, only: tuple[str, ...] = ()) -> list[str]:
    return [target.name for target in plan.select(groups, only)]


def built_by(plan: Plan) -> dict[str, str]:
    return {cell.id: cell.built_by for cell in plan.cells}


def test_the_lowest_python_builds_for_all_from_the_floor_on() -> None:
    plan = shared()
    assert built_by(plan) == {"cp39": "cp39", "cp311": "cp311", "cp313": "cp311", "cp314": "cp311"}
    assert [cell.args["WHEEL_PYTHON"] for cell in plan.cells] == ["3.9", "3.11", "3.11", "3.11"]
    assert [cell.abi3 for cell in plan.cells] == [False, True, True, True]


def test_targets() -> None:
    plan = shared()
    assert names(plan, "wheel") == ["wheel-cp39", "wheel-cp311"]
    assert names(plan, "test") == ["test-cp39", "test-cp311", "test-cp313", "test-cp314"]
    assert names(plan, "dev") == ["dev-cp39", "dev-cp311", "dev-cp313", "dev-cp314"]
    assert bake_groups(plan, ["wheel"])["wheel"] == ["wheel-cp39", "wheel-cp311"]


def test_a_served_cell_stands_for_the_wheel_that_serves_it() -> None:
    plan = shared()
    assert names(plan, "wheel", only=("cp313*",)) == ["wheel-cp311"]
    assert names(plan, "wheel", only=("wheel-cp314",)) == ["wheel-cp311"]
    assert names(plan, "test", only=("cp313",)) == ["test-cp313"]
    assert names(plan, "full", only=("cp313",)) == ["wheel-cp311", "test-cp313"]
    assert names(plan, "full", only=("cp39",)) == ["wheel-cp39", "test-cp39"]


def test_other_axes_have_wheels_of_their_own() -> None:
    matrix = {"python": ["3.11", "3.13"], "cuda": ["12.8.1", "13.0.3"]}
    plan = shared(matrix=matrix, builder={"toolkit": "cuda"}, platforms=["linux/amd64", "linux/arm64"])
    assert {cell.built_by for cell in plan.cells if cell.axes["python"] == "3.13"} == {
        cell.id for cell in plan.cells if cell.axes["python"] == "3.11"
    }
    assert all(
        (cell.built_by.removeprefix("cp311"), cell.args["CUDA_VERSION"])
        == (cell.id.removeprefix("cp313").removeprefix("cp311"), cell.axes["cuda"])
        for cell in plan.cells
    )


def test_free_threaded_pythons_build_their_own() -> None:
    matrix = {"python": ["3.13t", "3.14", "3.12", "3.14t"]}
    plan = shared(matrix=matrix, builder={"base": {"image": "a/manylinux_2_28_x86_64:1"}})
    assert built_by(plan) == {"cp313t": "cp313t", "cp314": "cp312", "cp312": "cp312", "cp314t": "cp314t"}


def test_a_cell_with_values_of_its_own_builds_its_own_wheel_with_the_same_python() -> None:
    variables = {"A": "1"}
    for plan in (
        shared("test-cp313.args.A=2", variables=variables),
        shared(
            variables=variables,
            matrix={"python": PYTHONS, "overrides": [{"where": {"python": "3.13"}, "variables": {"A": "2"}}]},
        ),
    ):
        assert built_by(plan) == {"cp39": "cp39", "cp311": "cp311", "cp313": "cp313", "cp314": "cp311"}
        assert [cell.args["WHEEL_PYTHON"] for cell in plan.cells] == ["3.9", "3.11", "3.11", "3.11"]
        assert names(plan, "full", only=("cp313",)) == ["wheel-cp313", "test-cp313"]


def test_an_override_of_a_wheel_that_another_cell_builds() -> None:
    with pytest.raises(UsageError, match="the wheel is built by another cell") as caught:
        shared("wheel-cp313.tags=a")
    assert caught.value.hint == "write wheel-cp311"
    assert [str(item) for item in shared("wheel-cp31*.tags=a", "test-cp313.tags=b").overrides] == [
        "wheel-cp31*.tags=a",
        "test-cp313.tags=b",
    ]


def test_no_stage_of_the_wheel_sees_the_python_of_the_test() -> None:
    recipe = {
        "environment": {"FOR": "${PYTHON_VERSION}"},
        "requirements": ["cmake; python_version<'${PYTHON_VERSION}'"],
    }
    plan = shared(builder=recipe, wheel={"abi3": "3.11", "naming": {"build-tag": "1py${PYTHON_VERSION}"}})
    stages = {stage.name: stage for stage in plan.stages}
    seen = {name for name, stage in stages.items() if Arg("PYTHON_VERSION") in stage.steps}
    assert seen == {"test-system"}
    assert {"builder-system", "compile", "repair"} <= {
        name for name, stage in stages.items() if Arg("WHEEL_PYTHON") in stage.steps
    }
    assert "PYTHON_VERSION" not in repr([stages[name] for name in ("builder-system", "builder", "compile", "repair")])
    assert stages["root"].base == ("python-", Ref("WHEEL_PYTHON"))
    assert stages["test-root"].base == ("python-", Ref("PYTHON_VERSION"))
    assert stages["runtime"].base == ("test-root",)
    assert plan.global_args == ("WHEEL_PYTHON", "PYTHON_VERSION")
    assert [image.suite for image in plan.cells[2].images] == ["bookworm", "trixie"]


@pytest.mark.parametrize(
    ("command", "told"),
    [("python gen.py ${PYTHON_VERSION}", (("PYTHON_VERSION", (Ref("WHEEL_PYTHON"),)),)), ("python gen.py", ())],
)
def test_the_command_before_the_build_knows_the_python_of_the_wheel(
    command: str, told: tuple[tuple[str, Value], ...]
) -> None:
    for plan, expected in (
        (shared(builder={"before-build": command}), told),
        (plan_with(builder={"before-build": command}), ()),
    ):
        (stage,) = (stage for stage in plan.stages if stage.name == "before-build")
        (run,) = (step for step in stage.steps if isinstance(step, Run))
        (shell,) = (item for item in run.commands if isinstance(item, Command) and item.words[-1] == (command,))
        assert shell.environment == expected


def test_one_image_for_all_pythons_has_its_stages_once() -> None:
    base = {"base": {"image": "a/manylinux_2_28_x86_64:1"}}
    text = dockerfile(shared(builder=base))
    assert "FROM root AS runtime" in text
    assert "test-root" not in text
    assert [len(cell.images) for cell in shared(builder=base).cells] == [1] * 4


def test_nothing_changes_where_no_wheel_is_shared() -> None:
    matrix = {"python": ["3.9", "3.13"]}
    assert generate(plan_with(matrix=matrix, wheel={"abi3": "3.11"})) == generate(plan_with(matrix=matrix))


def test_bake_file() -> None:
    text = bakefile(shared())
    assert 'id = "cp313", wheel = "cp311", platform' in text
    found = re.findall(r'^target "([a-z]+)" \{\n(?:  .*\n)*?  matrix += (.*)$', text, re.MULTILINE)
    assert dict(found) == {
        "wheel": "{ cell = [for item in cells : item if item.wheel == item.id] }",
        "test": "{ cell = cells }",
        "dev": "{ cell = cells }",
        "materials": "{ cell = cells }",
    }


def test_plan_as_json() -> None:
    text = json.dumps(to_json([shared()], ()))
    assert '"built_by": "cp311"' in text
    assert '"wheel-cp313"' not in text


def test_promise(tmp_path: Path) -> None:
    plan = shared()
    wheel = tmp_path / "x-1.0-cp311-abi3-manylinux_2_28_x86_64.whl"
    cells = {cell.id: cell for cell in plan.cells}
    (own,) = promises(plan, cells["cp39"], None, [wheel])
    assert (own.abi3, own.python, own.pythons) == (None, "3.9", ())
    (own,) = promises(plan, cells["cp311"], None, [wheel])
    assert (own.abi3, own.python, own.pythons) == (True, "3.11", ("3.11", "3.13", "3.14"))


def test_the_floor_is_promised(tmp_path: Path) -> None:
    plan = shared(floor="3.9", matrix={"python": ["3.11", "3.13"]})
    wheel = tmp_path / "x-1.0-cp311-abi3-manylinux_2_28_x86_64.whl"
    (own,) = promises(plan, plan.cells[0], None, [wheel])
    assert (own.abi3, own.python, own.pythons) == (True, "3.11", ("3.9", "3.11", "3.13"))


def test_a_cell_with_values_of_its_own_promises_the_python_that_builds_its_wheel(tmp_path: Path) -> None:
    plan = shared(
        "test-cp313.args.A=2",
        variables={"A": "1"},
        wheel={"abi3": "3.11", "naming": {"build-tag": "1py${PYTHON_VERSION}"}, "requires": ["y==${PYTHON_VERSION}.*"]},
    )
    wheel = tmp_path / "x-1.0-1py3.11-cp311-abi3-manylinux_2_28_x86_64.whl"
    (own,) = promises(plan, plan.cells[2], None, [wheel])
    assert (own.python, own.pythons, own.requires) == ("3.13", ("3.11", "3.13"), ("y==3.11.*",))


@pytest.mark.parametrize(("tag", "file"), [("01", "01"), ("01", "1"), ("1x", "01x"), ("007", "007")])
def test_a_build_tag_is_compared_by_its_number(tag: str, file: str, tmp_path: Path) -> None:
    plan = plan_with(wheel={"naming": {"build-tag": tag}})
    wheel = tmp_path / f"x-1.0-{file}-py3-none-any.whl"
    assert len(promises(plan, plan.cells[0], None, [wheel])) == 1
    with pytest.raises(AuditError, match="no wheel is named as the recipe says: build tag"):
        promises(plan, plan.cells[0], None, [tmp_path / "x-1.0-2-py3-none-any.whl"])


@pytest.mark.parametrize(
    ("torch", "platform", "abi"),
    [
        ("2.6.0", "linux/amd64", "old"),
        ("2.6.0+cu124", "linux/amd64", "old"),
        ("2.6.0+cu126", "linux/amd64", "cxx11"),
        ("2.6.0", "linux/arm64", ""),
        ("2.6.0+xpu", "linux/amd64", ""),
        ("2.5.1+cu121", "linux/amd64", "old"),
        ("2.11.0", "linux/arm64", "cxx11"),
        ("2.11.0+cu130", "linux/amd64", "cxx11"),
        ("1.0.0", "linux/amd64", ""),
    ],
)
def test_the_abi_of_torch(torch: str, platform: str, abi: str, tmp_path: Path) -> None:
    plan = plan_with(variables={"TORCH_VERSION": torch}, platforms=[platform])
    (own,) = promises(plan, plan.cells[0], None, [tmp_path / "x-1.0-py3-none-any.whl"])
    assert own.cxx_abi == abi


def test_free_threaded_floor_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"no free-threaded Python loads an abi3 module; .* '3\.13'"):
        shared(floor="3.13t")


TORCH = ["2.11.0", "2.10.0", "2.12.0"]


def for_torch(*sets: str, abi3: str | None = "3.11", **matrix: object) -> Plan:
    wheel = {"torch-abi": "2.10"} | ({"abi3": abi3} if abi3 else {})
    matrix = {"python": ["3.11", "3.13"], "torch": TORCH, **matrix}
    return plan_with(*sets, matrix=matrix, builder={"framework": "torch"}, wheel=wheel)


def test_the_oldest_torch_builds_for_all() -> None:
    plan = for_torch()
    assert names(plan, "wheel") == ["wheel-cp311-torch210"]
    assert len(names(plan, "test")) == 6
    assert {(cell.args["TORCH_VERSION"], cell.args["WHEEL_PYTHON"]) for cell in plan.cells} == {("2.10.0", "3.11")}
    assert [cell.args["TESTED_TORCH"] for cell in plan.cells] == TORCH * 2
    (wheel,) = {plan.values_of_wheel(cell)["TORCH_MINOR"] for cell in plan.cells}
    assert wheel == "2.10"
    assert plan.audit.requires == ((("torch>=2.10",)),)


def test_each_python_builds_for_all_torch_releases_without_abi3() -> None:
    plan = for_torch(abi3=None, exclude=[{"python": "3.13", "torch": "2.10.0"}])
    assert names(plan, "wheel") == ["wheel-cp311-torch210", "wheel-cp313-torch211"]
    assert not any(cell.abi3 or "WHEEL_PYTHON" in cell.args for cell in plan.cells)
    promise = promises(plan, plan.cells[1], None, [Path("x-1-cp311-cp311-manylinux_2_36_x86_64.whl")])[0]
    assert (promise.torch_abi, promise.abi3, promise.pythons) == ("2.10", None, ())


def test_a_torch_that_is_no_axis_is_tested_as_built() -> None:
    plan = plan_with(variables={"TORCH_VERSION": "2.11.0"}, builder={"framework": "torch"}, wheel={"torch-abi": "2.10"})
    assert names(plan, "wheel") == ["wheel-cp311"]
    text = dockerfile(plan)
    assert text.count('"torch==${TORCH_VERSION}"') == 2
    assert "--require 'torch>=2.10'" in text.replace("\\\n        ", "")
