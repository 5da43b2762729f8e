"""Overrides with tables: what cells get, which stages they share, and what is refused."""

from __future__ import annotations

import re

import pytest
from plans import plan_of

from bakery.core.errors import BakeryError, PlanError, RecipeError
from bakery.emit.bakefile import bakefile
from bakery.emit.cibuildwheel import configurations
from bakery.emit.dockerfile import dockerfile
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage

TILELANG = """
name = "tl"
platforms = ["linux/amd64", "linux/arm64", "macos/arm64", "windows/amd64"]
variables = { CUDA_VERSION = "13.0.3" }
matrix.python = ["3.10", "3.12"]
wheel.abi3 = "3.10"
[builder]
base = "manylinux_2_28"
toolkit = "wheels"
environment = { USE_CUDA = "ON" }
[[matrix.overrides]]
where = { platform = "linux/arm64" }
builder = { base = "manylinux_2_34" }
wheel = { repair = { plat = "manylinux_2_34" } }
[[matrix.overrides]]
where = { platform = "macos/*" }
builder = { toolkit = "none", environment = { USE_METAL = "ON" } }
[[matrix.overrides]]
where = { platform = "windows/*" }
builder = { toolkit = "none", requirements = ["nvidia-cuda-nvcc"] }
"""


def cell_of(plan: Plan, name: str) -> Cell:
    return next(cell for cell in (*plan.cells, *plan.cibuildwheel_cells) if cell.id == name)


def test_four_platforms_with_a_base_and_a_toolkit_each_are_one_recipe() -> None:
    plan = plan_of(TILELANG)
    assert {cell.built_by for cell in plan.cells} == {"cp310-linux_x86_64", "cp310-linux_aarch64"}
    assert "manylinux_2_34_aarch64" in cell_of(plan, "cp310-linux_aarch64").images[0].ref
    assert "manylinux_2_28_x86_64" in cell_of(plan, "cp310-linux_x86_64").images[0].ref
    arm = cell_of(plan, "cp312-linux_aarch64")
    assert (plan.of(arm).audit.plat, plan.audit.plat) == ("manylinux_2_34", "auto")
    texts = configurations(plan)
    mac, win = (next(text for name, text in texts.items() if system in name) for system in ("macos", "windows"))
    assert [("USE_METAL" in text, "nvidia-cuda-nvcc" in text) for text in (mac, win)] == [(True, False), (False, True)]
    assert "USE_CUDA" in mac


def test_stages_of_equal_content_are_written_once_and_every_reference_is_there() -> None:
    plan = plan_of(TILELANG)
    names = [stage.name for stage in plan.stages]
    assert len(names) == len(set(names))
    assert {"git-files", "git-files-linux-arm64"} & set(names) == {"git-files"}
    text = dockerfile(plan)
    known = set(re.findall(r" AS (\S+)", text))
    assert set(re.findall(r"from=([a-z0-9-]+)", text)) <= known
    for cell in plan.cells:
        stages = Lineage(plan).of(cell)
        assert f"tl-test{cell.own}" in stages
        assert any("manylinux_2_34" in name for name in stages) is (cell.platform == "linux/arm64")
    assert 'target      = "tl-wheel${cell.own}"' in bakefile(plan)


def test_the_wheel_of_newer_pythons_is_tested_by_cells_with_another_test() -> None:
    plan = plan_of(
        """
        name = "mixed"
        matrix.python = ["3.11", "3.13", "3.14"]
        [[matrix.overrides]]
        where = { python = "3.1[34]" }
        wheel = { abi3 = "3.13" }
        [[matrix.overrides]]
        where = { python = "3.14" }
        test = { requirements = ["pytest"] }
        """
    )
    assert {cell.id: cell.built_by for cell in plan.cells} == {"cp311": "cp311", "cp313": "cp313", "cp314": "cp313"}
    assert [plan.of(cell).audit.abi3 for cell in plan.cells] == ["", "3.13", "3.13"]
    assert [bool(plan.of(cell).facts.test_requirements) for cell in plan.cells] == [False, False, True]


def test_a_short_name_with_variables_is_a_base_for_each_cell() -> None:
    plan = plan_of(
        """
        name = "sage"
        platforms = ["linux/amd64", "linux/arm64"]
        variables = { BASE = "cuda12_9" }
        matrix.cuda = ["12.9.1", "13.0.2"]
        builder = { base = "manylinux_2_28_${BASE}", toolkit = "image" }
        wheel.naming.local = "cu${CUDA_TAG}"
        [[matrix.overrides]]
        where = { cuda = "13.*" }
        variables = { BASE = "cuda13_0" }
        """
    )
    refs = {cell.id: cell.images[0].ref.rpartition("/")[2].partition(":")[0] for cell in plan.cells}
    assert set(refs.values()) == {
        f"manylinux_2_28_{arch}_cuda{cuda}" for arch in ("x86_64", "aarch64") for cuda in ("12_9", "13_0")
    }
    assert all(f"cuda{name.split('-')[1].removeprefix('cu')[:2]}" in ref for name, ref in refs.items())


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ('builder = { bse = "debian" }', "matrix.overrides[0].builder.bse: unknown key; did you mean 'base'?"),
        (
            'builder = { base = "debain" }',
            "matrix.overrides[0].builder.base: unknown base 'debain'; did you mean 'debian'?",
        ),
        ("builder = { cross = true }", "matrix.overrides[0].builder.cross: this is a setting of all cells"),
        ("test = { gpu = true }", "matrix.overrides[0].test.gpu: this is a setting of all cells"),
        ('builder = { toolkit = "repository" }', "matrix.overrides[0].builder: toolkit 'repository' needs the address"),
        ('native = { into = "x" }', "matrix.overrides[0].native.command: missing"),
        ('builder = { environment = { A = "${NONE}" } }', "matrix.overrides[0].builder.environment.A: "),
        ('buildr = { base = "debian" }', "matrix.overrides[0].buildr: unknown key; did you mean 'builder'?"),
        ("builder = 3", "matrix.overrides[0].builder: expected a table"),
        ("", "matrix.overrides[0]: it changes nothing"),
    ],
)
def test_what_is_wrong_in_an_override_is_told_with_its_place(override: str, problem: str) -> None:
    with pytest.raises(RecipeError) as caught:
        plan_of(f'name = "x"\n[[matrix.overrides]]\nwhere = {{ python = "3.11" }}\n{override}\n')
    assert any(problem in line for line in caught.value.details), caught.value.details


@pytest.mark.parametrize(
    ("recipe", "problem"),
    [
        ('builder.base = "manylinux_2_${N}"\nvariables.N = "99"', "no base has this name"),
        (
            'matrix.overrides = [{ where = {}, builder = { toolkit = "image", base = "manylinux_2_28_cuda12_9" } }, '
            '{ where = {}, builder = { base = "debian" } }]',
            "contradict each other",
        ),
    ],
)
def test_what_only_the_cells_show_is_an_error_of_the_plan(recipe: str, problem: str) -> None:
    with pytest.raises(BakeryError) as caught:
        plan_of(f'name = "x"\n{recipe}\n')
    assert isinstance(caught.value, PlanError)
    assert problem in caught.value.message
