"""Recipe to plan: cells, needs, stages, and what --set changes in them."""

from __future__ import annotations

import pytest
from plans import plan_with
from pydantic import ValidationError

from bakery.cli.tables.plan import to_json
from bakery.core.errors import PlanError, UsageError
from bakery.plan.delivery import Override
from bakery.plan.dockerfile import Add, Arg, Command, Env, Mount, Run, Stage
from bakery.plan.model import Plan
from bakery.plan.values import Ref, substitute
from bakery.toolchains import program_mounts


def stage(plan: Plan, name: str) -> Stage:
    return next(item for item in plan.stages if item.name == name)


def runs(item: Stage) -> list[Run]:
    return [step for step in item.steps if isinstance(step, Run)]


def words(item: Stage) -> list[str]:
    commands = [command for run in runs(item) for command in run.commands if isinstance(command, Command)]
    return [substitute(word, {"A": "${A}", "CUDA_VERSION": "${CUDA_VERSION}"}) for c in commands for word in c.words]


CUDA = {"variables": {"CUDA_VERSION": "13.0.3"}, "builder": {"toolkit": "cuda"}}


def test_the_smallest_recipe() -> None:
    plan = plan_with()
    kinds = ("wheel", "test", "dev", "materials", "compiler-cache")
    assert [target.name for target in plan.targets()] == [f"{kind}-cp311" for kind in kinds]
    assert [target.name for target in plan.select(("full",))] == ["wheel-cp311", "test-cp311"]
    (cell,) = plan.cells
    assert plan.args_of(cell) == {"PYTHON_VERSION": "3.11", "SOURCE_DATE_EPOCH": "315532800"}
    assert [(image.ref, image.suite) for image in cell.images] == [("debian:bookworm-slim", "bookworm")]
    assert cell.needs == ()


def test_select_by_glob_over_cells_and_targets() -> None:
    plan = plan_with(matrix={"python": ["3.11", "3.13"]})
    assert [target.name for target in plan.select(("full",), ("cp313",))] == ["wheel-cp313", "test-cp313"]
    assert [target.name for target in plan.select(("full",), ("test-*11", "nothing"))] == ["test-cp311"]
    with pytest.raises(UsageError, match="recipe x: no cell matches nothing"):
        plan.select(("full",), ("nothing",))


def test_matrix_overrides_change_arguments_of_the_cells_they_select() -> None:
    recipe = {
        "variables": {"A": "1", "CUDA_VERSION": "13.0.3"},
        "matrix": {
            "python": ["3.11", "3.13"],
            "overrides": [
                {"where": {}, "variables": {"A": "2"}},
                {"where": {"python": "3.13"}, "variables": {"A": "3", "CUDA_VERSION": "12.8.1"}},
            ],
        },
        "builder": {"toolkit": "cuda"},
    }
    plan = plan_with(**recipe)
    assert [plan.args_of(cell)["A"] for cell in plan.cells] == ["2", "3"]
    assert [[need.version for need in cell.needs] for cell in plan.cells] == [["13.0.3"], ["12.8.1"]]


def test_matrix_overrides_hold_for_axes_that_do_not_vary_and_yield_to_the_command_line() -> None:
    recipe = {
        "variables": {"A": "1"},
        "matrix": {"cuda": ["13.0.3"], "overrides": [{"where": {"cuda": "12.*"}, "variables": {"A": "2"}}]},
        "builder": {"toolkit": "cuda"},
    }
    for sets, wanted in (((), "1"), (("CUDA_VERSION=12.8.1",), "2"), (("CUDA_VERSION=12.8.1", "A=3"), "3")):
        plan = plan_with(*sets, **recipe)
        assert [plan.args_of(cell)["A"] for cell in plan.cells] == [wanted]


@pytest.mark.parametrize(
    "matrix",
    [
        {"overrides": [{"where": {}, "variables": {"CUDA_VERSION": "9.0.0"}}]},
        {"cuda": ["13.0.3"], "include": [{"cuda": "10.2.89"}]},
    ],
)
def test_a_release_that_no_toolkit_has(matrix: dict[str, object]) -> None:
    recipe = {"builder": CUDA["builder"]} if "cuda" in matrix else CUDA
    with pytest.raises(PlanError, match="has no CUDA"):
        plan_with(**recipe, matrix=matrix)


@pytest.mark.parametrize(
    "matrix",
    [
        {"cuda": ["13.0.3"], "include": [{"cuda": "٣.0.0"}]},
        {"cuda": [""]},
        {"cuda": ["13.0"]},
        {"cuda": ["13.0.3"], "torch": ["2.11"]},
    ],
)
def test_a_value_of_an_axis_that_is_no_release(matrix: dict[str, object]) -> None:
    with pytest.raises(PlanError) as caught:
        plan_with(builder=CUDA["builder"], matrix=matrix)
    (problem,) = caught.value.details
    assert problem.startswith("matrix.")
    assert "in three parts" in problem


def test_needs_name_who_else_could_help() -> None:
    (need,) = plan_with(**CUDA).cells[0].needs
    others = ("clang (CUDA 12)", "debian (CUDA 11.8.0, 12.4.1)")
    assert (need.name, need.version, need.alternatives) == ("cuda-toolkit", "13.0.3", others)
    (sdist,) = plan_with(source="sdist:UJson==6.1.0").cells[0].needs
    assert (sdist.name, sdist.version, sdist.sdist) == ("UJson", "6.1.0", True)


def test_one_stage_for_each_cuda_major_and_shared_ones_once() -> None:
    names = [item.name for item in plan_with(**CUDA).stages]
    assert len(names) == len(set(names))
    assert {"cuda-12", "cuda-13", "toolkit"} <= set(names)
    assert stage(plan_with(**CUDA), "toolkit").base == ("cuda-", Ref("CUDA_VERSION%%.*"))
    assert stage(plan_with(), "builder-system").base == ("base",)


def test_only_steps_of_the_build_backend_see_what_only_it_needs() -> None:
    plan = plan_with(
        variables={"A": "1"}, builder={"environment": {"FLAGS": "-O${A}"}}, wheel={"config-settings": {"k": "${A}"}}
    )
    users = [item.name for item in plan.stages if Arg("A") in item.steps]
    assert users == ["backend-requires", "backend-requires-again", "compile", "compile-again"]
    (run,) = runs(stage(plan, "compile"))
    assert not run.network
    assert "-Ck=${A}" in words(stage(plan, "compile"))
    assert not any(isinstance(step, Env) for step in stage(plan, "compile").steps)


def test_the_test_command_has_the_variables_it_names() -> None:
    plan = plan_with(variables={"A": "1", "B": "2"}, test={"command": "echo ${A} $B"})
    own = stage(plan, "x-test")
    assert Arg("A") in own.steps
    assert Arg("B") not in own.steps
    assert words(own)[-3:] == ["sh", "-c", "echo ${A} $B"]


def test_sources() -> None:
    git = plan_with(source="git+https://host/a/b@v1")
    assert stage(git, "source").steps == (Add(("https://host/a/b.git#v1",), "/src"),)
    (run,) = runs(stage(plan_with(source="sub/./folder"), "compile"))
    assert Mount("bind", "/src", source="sub/folder", writable=True) in run.mounts


@pytest.mark.parametrize("name", ["a*b", "a,b", "a$b", 'a"b', "a'b", "[a]"])
def test_a_folder_that_dockerfiles_cannot_name(name: str) -> None:
    with pytest.raises(PlanError, match="Dockerfiles cannot name"):
        plan_with(source=name)


def test_set_of_all_targets_is_taken_over() -> None:
    plan = plan_with("*.args.A=2", "*.platforms=linux/arm64,linux/amd64", variables={"A": "1"})
    assert plan.values()["A"] == "2"
    assert [cell.id for cell in plan.cells] == ["cp311-linux_aarch64", "cp311-linux_x86_64"]
    assert plan.overrides == ()
    for pattern in ("wheel", "full", "wheel-*"):
        named = plan_with(f"{pattern}.args.A=2", f"{pattern}.platforms=linux/arm64", variables={"A": "1"})
        assert (named.values()["A"], [cell.platform for cell in named.cells]) == ("2", ["linux/arm64"])
    more = plan_with("*.platform+=linux/arm64")
    assert [cell.platform for cell in more.cells] == ["linux/amd64", "linux/arm64"]


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("https://github.com/org/proj@v1", "https://github.com/org/proj.git#v1"),
        ("https://github.com/org/proj/@v1", "https://github.com/org/proj.git#v1"),
        ("https://me@github.com/org/proj.git@a/b", "https://me@github.com/org/proj.git#a/b"),
        ("ssh://git@github.com/org/proj.git@v1", "ssh://git@github.com/org/proj.git#v1"),
        ("git@github.com:org/proj.git@v1", "git@github.com:org/proj.git#v1"),
        ("file:///srv/a@b@v1", "file:///srv/a@b#v1"),
        ("ssh://git@github.com/org/proj.git", None),
        ("https://me@github.com/org/proj", None),
        ("git@github.com:org/proj.git", None),
        ("https://me@github.com", None),
    ],
)
def test_the_ref_of_a_git_source_is_behind_its_path(source: str, address: str | None) -> None:
    if address is None:
        with pytest.raises(ValidationError, match="expected a ref with git: a branch, a tag or a commit"):
            plan_with(source=f"git+{source}")
    else:
        assert Add((address,), "/src") in stage(plan_with(source=f"git+{source}"), "source").steps


@pytest.mark.parametrize(
    ("sets", "cells"),
    [
        ([], ["cp311-amd64-1", "cp313-amd64-1", "cp313-arm64-2"]),
        (["KIND=3"], ["cp311-amd64-3", "cp313-amd64-3", "cp313-arm64-3"]),
        (["PYTHON_VERSION=3.14"], ["cp314-amd64-1", "cp314-arm64-2"]),
        (["*.platform=linux/amd64"], ["cp311-amd64-1", "cp313-amd64-1", "cp313-amd64-2"]),
        (["*.platform=linux/amd64", "KIND=1"], ["cp311-amd64-1", "cp313-amd64-1"]),
        (["*.platform+=linux/amd64"], ["cp311-amd64-1", "cp313-amd64-1", "cp313-arm64-2"]),
    ],
)
def test_set_reaches_the_cells_of_include(sets: list[str], cells: list[str]) -> None:
    include = [{"python": "3.13", "kind": "2", "platform": "linux/arm64"}]
    plan = plan_with(*sets, matrix={"python": ["3.11", "3.13"], "kind": ["1"], "include": include})
    found = [(cell.axes["python"].replace(".", ""), cell.platform[6:], cell.args["KIND"]) for cell in plan.cells]
    assert [f"cp{python}-{machine}-{kind}" for python, machine, kind in found] == cells


def test_what_a_cell_needs_follows_its_values() -> None:
    plan = plan_with("wheel-cp313.args.CUDA_VERSION=12.8.0", **CUDA, matrix={"python": ["3.11", "3.13"]})
    assert [[need.version for need in cell.needs] for cell in plan.cells] == [["13.0.3"], ["12.8.0"]]
    with pytest.raises(PlanError, match="the value of a variable is not valid"):
        plan_with("wheel-cp311.args.CUDA_VERSION=12", **CUDA)
    with pytest.raises(PlanError, match="PYTHON_VERSION is an axis"):
        plan_with("wheel-cp311.args.PYTHON_VERSION=3.13")


def test_a_platform_for_some_cells() -> None:
    plan = plan_with("*-cp313.platform=linux/arm64", matrix={"python": ["3.11", "3.13"]})
    assert [(cell.id, cell.platform, cell.images[0].platform) for cell in plan.cells] == [
        ("cp311", "linux/amd64", "linux/amd64"),
        ("cp313", "linux/arm64", "linux/arm64"),
    ]
    assert plan.overrides == ()


def test_set_of_some_targets() -> None:
    python = {"python": ["3.11", "3.13"]}
    plan = plan_with(
        "wheel-cp313.args.A=2",
        "*.args.BUILDKIT_X=3",
        "full.tags=a",
        "dev.pull=true",
        matrix=python,
        variables={"A": "1"},
    )
    assert [dict(cell.args) for cell in plan.cells] == [
        {"PYTHON_VERSION": "3.11", "BUILDKIT_X": "3"},
        {"PYTHON_VERSION": "3.13", "A": "2", "BUILDKIT_X": "3"},
    ]
    assert plan.overrides == (
        Override("wheel-*", "tags", False, "a"),
        Override("test-*", "tags", False, "a"),
        Override("dev-*", "pull", False, "true"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wheel-cp39.tags=a", "matches no target"),
        ("wheel-cp311.platform=linux/arm64,linux/amd64", "a cell has one platform"),
        ("wheel-cp311.platform+=linux/arm64", "a cell has one platform"),
        ("*.platform=linux/mips", "unknown platform"),
        ("A=1", "no such variable"),
        ("*.args.LEVLE=3", "has no effect: the recipe has no build argument LEVLE"),
        ("wheel-cp311.args.pattern=3", "has no effect: the recipe has no build argument pattern"),
    ],
)
def test_set_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_with(text)


@pytest.mark.parametrize("value", ["2.7", "3.11\n", "", "three"])
def test_a_python_that_is_none(value: str) -> None:
    with pytest.raises((PlanError, UsageError)):
        plan_with(f"PYTHON_VERSION={value}")


def test_the_plan_as_json() -> None:
    document = to_json([plan_with(**CUDA)], ())
    assert document["version"] == 1
    (recipe,) = document["recipes"]
    kinds = ("wheel", "test", "dev", "materials", "compiler-cache")
    assert recipe["cells"][0]["targets"] == [f"{kind}-cp311" for kind in kinds]
    assert recipe["cells"][0]["needs"] == ["cuda-toolkit==13.0.3"]


def test_stages_are_named_once_and_built_from_earlier_ones() -> None:
    for plan in (
        plan_with(),
        plan_with(**CUDA),
        plan_with(source="sdist:a==1"),
        plan_with(source="git+https://h/a@v1"),
    ):
        known = [program_mounts.STAGE]
        for item in plan.stages:
            mounts = [mount.from_ for run in runs(item) for mount in run.mounts if mount.from_]
            assert all(name in known for name in mounts), (item.name, mounts)
            assert item.name not in known
            known.append(item.name)
        assert {plan.stage_of(kind, cell) for kind in plan.kinds for cell in plan.cells} <= set(known)


def test_a_step_that_starts_python_is_in_a_stage_whose_image_got_it() -> None:
    plan = plan_with(
        builder={"base": {"image": "nvidia/cuda:13.0.3-devel-ubuntu22.04"}, "toolkit": "image"},
        variables={"CUDA_VERSION": "13.0.3"},
        test={"requirements": ["pytest"]},
    )
    with_python: set[str] = set()
    starting = []
    for item in plan.stages:
        commands = [repr(command) for run in runs(item) for command in run.commands]
        base = substitute(item.base, {"CUDA_VERSION": "13.0.3"})
        if base in with_python or any(
            f"('complete-image',), ('{what}',)" in c for c in commands for what in ("build", "python")
        ):
            with_python.add(item.name)
        if any("/bin/python" in command for command in commands):
            starting.append(item.name)
    assert {"base", "test-requirements-built", "test-env", "x-test"} <= set(starting) <= with_python


def test_overrides_of_cells_fit_the_pattern_too() -> None:
    with pytest.raises(PlanError) as caught:
        plan_with(
            variables={"LEVEL": {"default": "1", "pattern": "[0-9]"}},
            matrix={"overrides": [{"where": {"python": "3.11"}, "variables": {"LEVEL": "high"}}]},
        )
    assert caught.value.details == ("LEVEL: expected a value that matches [0-9], got 'high'",)
