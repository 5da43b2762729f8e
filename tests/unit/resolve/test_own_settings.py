"""Overrides with tables: what cells get, which stages they share, and what is refused."""

from __future__ import annotations

import re
from contextlib import nullcontext

import pytest
from plans import plan_of

from bakery.core.errors import BakeryError, PlanError, RecipeError
from bakery.emit.bakefile import bakefile
from bakery.emit.cibuildwheel import configurations
from bakery.emit.dockerfile import dockerfile
from bakery.plan.cells import Cell
from bakery.plan.dockerfile import Arg, Run
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage
from bakery.plan.values import substitute
from bakery.resolve.rules import judge
from bakery.resolve.rules.subject import subjects

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


@pytest.mark.parametrize(("steps", "table"), [("test", "test"), ("native", "native")])
def test_a_secret_is_for_a_step_that_some_cells_have(steps: str, table: str) -> None:
    more = {"test": 'command = "ls"', "native": 'command = "make", into = "x"'}[table]
    plan = plan_of(
        f'name = "x"\nmatrix.python = ["3.11", "3.13"]\nsecrets.tok = {{ env = "TOK", steps = ["{steps}"] }}\n'
        '[[matrix.overrides]]\nwhere = { python = "3.11" }\nbuilder = { environment = { A = "1" } }\n'
        f'[[matrix.overrides]]\nwhere = {{ python = "3.13" }}\n{table} = {{ {more} }}\n'
    )
    mounts = [
        mount.id for stage in plan.stages for step in stage.steps if isinstance(step, Run) for mount in step.mounts
    ]
    assert "tok" in mounts


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


TWO_CUDAS = """
name = "pkg"
[matrix]
python = ["3.11", "3.13"]
cuda = ["12.9.1", "13.0.3"]
[builder]
base = "manylinux_2_28"
"""
LOCAL = '[[matrix.overrides]]\nwhere = { cuda = "13.*" }\nwheel = { naming = { local = "cu130" } }\n'
LOCALS = TWO_CUDAS + '[wheel]\nnaming = { local = "cu${CUDA_TAG}" }\n%s[ci]\n%s\n'


@pytest.mark.parametrize(
    "recipe",
    [
        f'{TWO_CUDAS}{LOCAL}[ci]\npublish = "pypi"\npages = true\n',
        # What the advice says.
        LOCALS % ("", "pages = true"),
        LOCALS % ("also-named = [{ clean = true }]\n", 'publish = "pypi"'),
    ],
)
def test_a_recipe_publishes_what_some_of_its_cells_build(recipe: str) -> None:
    assert plan_of(recipe).ci


def rules_of(recipe: str) -> set[str]:
    return {finding.rule.id for finding in judge(plan_of(recipe))}


def test_names_of_wheels_are_those_of_each_cell() -> None:
    other = '[[matrix.overrides]]\nwhere = { cuda = "12.*" }\ntest = { imports = ["pkg"] }\n'
    assert (rules_of(TWO_CUDAS + LOCAL), rules_of(TWO_CUDAS + other)) == (set(), {"wheel-names"})


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ('wheel = { config-settings = { "wheel.py-api" = "cp312" } }', set()),
        ('test = { imports = ["pkg"] }', {"one-wheel-for-pythons"}),
    ],
)
def test_pythons_with_one_wheel_are_those_with_the_same_options(override: str, found: set[str]) -> None:
    recipe = 'name = "x"\nbuilder.base = "manylinux_2_28"\nmatrix.python = ["3.12", "3.13"]\n'
    options = '[wheel.config-settings]\n"wheel.py-api" = "cp312"\n' if found else ""
    assert rules_of(f'{recipe}{options}[[matrix.overrides]]\nwhere = {{ python = "3.12" }}\n{override}\n') == found


@pytest.mark.parametrize(
    ("default", "cuda", "release", "refused"),
    [("2.9.1", "*", "2.11.0", ""), ("2.11.0", "12.*", "2.9.1", "2.9.1"), ("2.11.0", "12.*", "2.10.0", "")],
)
def test_the_oldest_torch_is_that_of_the_cells(default: str, cuda: str, release: str, refused: str) -> None:
    recipe = (
        f'{TWO_CUDAS}framework = "torch"\n[variables]\nTORCH_VERSION = "{default}"\n[wheel]\ntorch-abi = "2.10"\n'
        f'[[matrix.overrides]]\nwhere = {{ cuda = "{cuda}" }}\nvariables = {{ TORCH_VERSION = "{release}" }}\n'
    )
    with pytest.raises(PlanError, match=rf"the matrix has torch {refused}") if refused else nullcontext():
        assert plan_of(recipe).cells


def test_bases_of_two_registries_and_cells_of_another_platform_keep_their_own() -> None:
    plan = plan_of(
        """
        name = "x"
        platforms = ["${MACHINE}"]
        variables.MACHINE = "linux/amd64"
        builder.base = "manylinux_2_28_cuda12_9"
        matrix.include = [{ platform = "linux/arm64" }]
        [[matrix.overrides]]
        where = { platform = "linux/arm64" }
        builder = { base = "manylinux_2_28" }
        """
    )
    registries = {cell.platform: plan.args_of(cell)["BASE_REGISTRY"] for cell in plan.cells}
    assert registries == {"linux/amd64": "quay.io/manylinux_cuda", "linux/arm64": "quay.io/pypa"}
    assert all(cell.images[0].ref.startswith(registries[cell.platform]) for cell in plan.cells)
    assert plan.platform_variable == ""


SAGE = """
name = "sageattention"
[variables]
CUDA_ARCHS = "8.0;8.6;8.9;9.0;12.0"
BASE = "manylinux_2_28_cuda12_9"
VARIANT = "cu128"
[matrix]
python = ["3.10", "3.11", "3.12", "3.13"]
torch = ["2.9.1+cu128", "2.10.0+cu128", "2.11.0", "2.12.1"]
cuda = ["12.9.1", "13.0.3"]
exclude = [{ torch = "*+cu128", cuda = "13.*" }, { torch = "2.1[12].*", cuda = "12.*" }]
[[matrix.overrides]]
where = { cuda = "13.*" }
variables = { CUDA_ARCHS = "8.0;8.6;8.9;9.0;10.0;12.0;12.1", BASE = "manylinux_2_28", VARIANT = "cu130" }
[builder]
base = "${BASE}"
toolkit = "cuda"
framework = "torch"
framework-index = "https://index.example/torch/${VARIANT}"
requirements = ["ninja"]
environment = { TORCH_CUDA_ARCH_LIST = "${CUDA_ARCHS}" }
[wheel]
naming = { local = "cu${CUDA_TAG}torch${TORCH_MINOR}", index = "private" }
"""


def toolkits_of(plan: Plan) -> dict[tuple[str, str], str]:
    """Return (CUDA, machine) → the toolkit of these cells."""
    found = {(cell.axes["cuda"], cell.platform[6:], plan.of(cell).cibuildwheel.toolkit) for cell in plan.cells}
    assert len(found) == len({(cuda, machine) for cuda, machine, _ in found})
    return {(cuda, machine): toolkit for cuda, machine, toolkit in found}


def test_sageattention_takes_cuda_12_from_its_base_and_torch_from_the_index_of_each_cell() -> None:
    plan = plan_of(SAGE)
    assert len(plan.cells) == 16
    assert toolkits_of(plan) == {("12.9.1", "amd64"): "image", ("13.0.3", "amd64"): "cuda"}
    told = {
        (subject.arguments["CUDA_VERSION"], subject.framework_index.rpartition("/")[2]) for subject in subjects(plan)
    }
    assert told == {("12.9.1", "cu128"), ("13.0.3", "cu130")}


REPOSITORY = """
name = "kernels"
platforms = ["linux/amd64", "linux/arm64"]
[matrix]
cuda = ["12.4.1", "12.6.3", "12.8.1", "12.9.1", "13.0.3"]
[builder]
base = "manylinux_2_28"
toolkit = "cuda"
cuda-repository = "https://mirror.example/rhel8/x86_64"
[[matrix.overrides]]
where = { platform = "linux/arm64" }
builder = { cuda-repository = "https://mirror.example/rhel8/sbsa" }
[wheel]
naming.local = "cu${CUDA_TAG}"
[variables]
TORCH_VERSION = "2.10.0"
"""


@pytest.mark.parametrize("framework", ["torch", ""])
def test_toolkit_cuda_takes_from_the_repository_what_it_has_nowhere_else(framework: str) -> None:
    plan = plan_of(
        REPOSITORY.replace("[builder]", f'[builder]\nframework = "{framework}"' if framework else "[builder]")
    )
    packaged = ("12.6.3", "12.8.1", "12.9.1") if framework else ()
    for (cuda, machine), toolkit in toolkits_of(plan).items():
        assert (cuda, machine, toolkit) == (cuda, machine, "repository" if cuda in packaged else "cuda")
    addresses = {str(step.default) for stage in plan.stages for step in stage.steps if isinstance(step, Arg)}
    assert {word for word in ("x86_64", "sbsa") if f"rhel8/{word}" in str(addresses)} == (
        {"x86_64", "sbsa"} if packaged else set()
    )


@pytest.mark.parametrize(
    ("cuda", "base"), [("12.9.1", 'base = "manylinux_2_28_cuda12_9", which has it'), ("12.6.3", 'toolkit = "image"')]
)
def test_toolkit_cuda_says_what_to_write_for_a_release_that_it_has_nowhere(cuda: str, base: str) -> None:
    with pytest.raises(PlanError, match=f"nvcc of CUDA {cuda} only from the base or from NVIDIA's packages") as caught:
        plan_of(
            f'name = "x"\nmatrix.cuda = ["{cuda}"]\nvariables.TORCH_VERSION = "2.10.0"\n'
            'builder = { base = "manylinux_2_28", toolkit = "cuda", framework = "torch" }\n'
        )
    assert f'{base}; or name the packages: cuda-repository = "https://…"; or set CUDA_VERSION to 12.4.1' in str(
        caught.value.hint
    )


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


FLASH_ATTN = """
name = "flash-attn"
platforms = ["linux/amd64", "linux/arm64"]
[matrix]
python = ["3.10", "3.11", "3.12", "3.13"]
torch = ["2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0"]
cuda = ["12.9.1", "13.0.1"]
abi = ["FALSE", "TRUE"]
exclude = [
    { torch = "2.[678].*", cuda = "13.*" },
    { torch = "2.6.0", platform = "linux/arm64" },
    { torch = "2.[789].*", abi = "FALSE" },
    { torch = "2.10.*", abi = "FALSE" },
]
[builder]
base = "manylinux_2_28"
toolkit = "repository"
cuda-repository = "https://packages.example/cuda"
framework = "torch"
[wheel]
naming = { local = "cu${CUDA_MAJOR}torch${TORCH_MINOR}cxx11abi${ABI}", index = "private" }
"""


def test_flash_attn_is_planned_with_the_names_of_its_releases() -> None:
    """The loops are the matrix of its workflow: Dao-AILab/flash-attention, .github/workflows/publish.yml, read 2026-11-27."""
    published = {
        (python, f"cu{cuda}torch{torch}cxx11abi{abi}", platform)
        for python in ("3.10", "3.11", "3.12", "3.13")
        for torch in ("2.6", "2.7", "2.8", "2.9", "2.10")
        for cuda in (("12", "13") if torch in ("2.9", "2.10") else ("12",))
        for abi in (("FALSE", "TRUE") if torch == "2.6" else ("TRUE",))
        for platform in (("linux/amd64",) if torch == "2.6" else ("linux/amd64", "linux/arm64"))
    }
    plan = plan_of(FLASH_ATTN)
    (naming,) = plan.audit.namings
    planned = [
        (cell.axes["python"], substitute(naming.local, plan.values_of_wheel(cell)), cell.platform)
        for cell in plan.cells
    ]
    assert len(planned) == len(published) == 56
    assert set(planned) == published
