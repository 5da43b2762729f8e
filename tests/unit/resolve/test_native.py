"""The native step: compiled once, below everything that depends on Python."""

from __future__ import annotations

import pytest
from plans import plan_with
from pydantic import ValidationError

from bakery.plan.dockerfile import Arg, Command, Mount, Run, Stage
from bakery.plan.model import Plan
from bakery.plan.values import Ref, literal
from bakery.resolve.device_promises import device_promises
from bakery.resolve.rules.subject import subjects

NATIVE = {"command": "make DESTDIR=/native install", "into": "src/pkg/lib"}
IMAGE = {"base": {"image": "a/manylinux_2_28_x86_64:1"}}


def plan_of(native: dict[str, object] | None = None, **recipe: object) -> Plan:
    matrix = {"python": ["3.13", "3.9", "3.11"]}
    return plan_with(**{"matrix": matrix, "native": {**NATIVE, **(native or {})}, **recipe})


def stage(plan: Plan, name: str) -> Stage:
    return next(item for item in plan.stages if item.name == name)


def the_run(item: Stage) -> Run:
    (run,) = [step for step in item.steps if isinstance(step, Run)]
    return run


def below(plan: Plan, name: str) -> set[str]:
    """Return the stages that a stage is built from, by FROM, COPY and mounts."""
    stages = {item.name: item for item in plan.stages}
    found: set[str] = set()
    left = [name]
    while left:
        item = stages.get(left.pop())
        if item is None or item.name in found:
            continue
        found.add(item.name)
        left += ["".join(str(part) for part in item.base)]
        left += [step.from_ for step in item.steps if hasattr(step, "from_")]
        left += [mount.from_ for step in item.steps if isinstance(step, Run) for mount in step.mounts]
    return found


def test_it_runs_on_the_base_of_the_oldest_python() -> None:
    plan = plan_of()
    assert stage(plan, "root").base == ("python-", "3.9")
    assert stage(plan, "wheel-root").base == ("python-", Ref("PYTHON_VERSION"))
    assert stage(plan, "runtime").base == ("wheel-root",)
    assert [[image.suite for image in cell.images] for cell in plan.cells] == [
        ["bullseye", "trixie"],
        ["bullseye"],
        ["bullseye", "bookworm"],
    ]


@pytest.mark.parametrize("abi3", [None, "3.11"])
def test_nothing_below_it_depends_on_python(abi3: str | None) -> None:
    plan = plan_of(wheel={"abi3": abi3})
    own = [stage(plan, name) for name in sorted(below(plan, "native"))]
    assert {"native", "native-tools", "base", "system", "root"} <= {item.name for item in own}
    for item in own:
        assert not {"PYTHON_VERSION", "WHEEL_PYTHON"} & {step.name for step in item.steps if isinstance(step, Arg)}, (
            item.name
        )
        assert all(isinstance(part, str) for part in item.base)


def test_stable_abi_adds_a_third_line() -> None:
    plan = plan_of(wheel={"abi3": "3.11"})
    assert stage(plan, "wheel-root").base == ("python-", Ref("WHEEL_PYTHON"))
    assert stage(plan, "test-root").base == ("python-", Ref("PYTHON_VERSION"))
    assert [image.suite for image in plan.cells[0].images] == ["bullseye", "bookworm", "trixie"]
    assert "test-base" not in {item.name for item in plan.stages}


def test_wheels_are_packaged_without_the_toolkit() -> None:
    cuda = {"variables": {"CUDA_VERSION": "13.0.3"}, "builder": {"toolkit": "cuda"}}
    plan = plan_of(**cuda)
    assert stage(plan, "native-tools").base == ("toolkit",)
    assert stage(plan, "builder-system").base == ("wheel-base",)
    image = plan_of(**{**cuda, "builder": {"toolkit": "cuda", **IMAGE}})
    assert stage(image, "builder-system").base == ("base",)


def test_stages_of_one_image_are_written_once() -> None:
    plan = plan_of(builder=IMAGE)
    assert stage(plan, "builder-system").base == ("base",)
    assert stage(plan, "runtime").base == ("root",)
    assert not [item.name for item in plan.stages if item.name.startswith(("wheel-", "test-root"))]


def test_the_step() -> None:
    plan = plan_of({"environment": {"FLAGS": "-O${A}"}}, variables={"A": "1"})
    native = stage(plan, "native")
    run = the_run(native)
    assert not run.network
    mounts = run.mounts
    assert mounts[0] == Mount("bind", "/src", source=".", writable=True)
    assert [mount.target for mount in mounts[1:4]] == ["/run/repository-rules", "/run/source", "/var/cache/ccache"]
    assert [step for step in native.steps if isinstance(step, Arg)] == [
        Arg("SOURCE_DATE_EPOCH"),
        Arg("TARGETARCH"),
        Arg("A"),
    ]
    (command,) = [item for item in run.commands if isinstance(item, Command) and item.environment]
    assert command.words[-1] == literal(str(NATIVE["command"]))
    assert command.environment == (("FLAGS", ("-O", Ref("A"))),)
    # Its program checks that it made something.
    assert literal("--full") in command.words


def test_a_variable_that_the_command_names_is_declared() -> None:
    plan = plan_of({"command": "make JOBS=${A}"}, variables={"A": "1", "B": "2"})
    assert Arg("A") in stage(plan, "native").steps
    assert Arg("B") not in stage(plan, "native").steps


def test_without_a_compiler_cache() -> None:
    plan = plan_of(builder={"compiler-cache": False})
    mounts = [mount.target for mount in the_run(stage(plan, "native")).mounts]
    assert mounts == ["/src", "/run/repository-rules", "/run/source"]
    assert Arg("TARGETARCH") not in stage(plan, "native").steps


def test_the_wheel_takes_in_what_it_made() -> None:
    run = the_run(stage(plan_of(), "compile"))
    assert Mount("bind", "/native", source="/native", from_="native") in run.mounts
    commands = [command.words for command in run.commands if isinstance(command, Command)]
    assert (literal("mkdir"), literal("-p"), literal("/src/src/pkg/lib")) in commands
    assert (literal("cp"), literal("-a"), literal("/native/."), literal("/src/src/pkg/lib")) in commands


def test_rules_and_the_audit_see_its_architectures() -> None:
    plan = plan_of(
        {"environment": {"CUDAARCHS": "${ARCHS}"}},
        variables={"CUDA_VERSION": "13.0.3", "ARCHS": "90-real;100"},
        builder={"toolkit": "cuda"},
    )
    assert {subject.arch_lists for subject in subjects(plan)} == {(("CUDAARCHS", "90-real;100"),)}
    assert {subject.compiler for subject in subjects(plan)} == {"nvcc"}
    promised = device_promises(plan)
    assert set(promised) == {"cp39", "cp311", "cp313"}
    assert promised["cp39"].archs == ("sm_90", "sm_100", "compute_100")


@pytest.mark.parametrize(
    ("native", "message"),
    [
        ({"command": None}, "Input should be a valid string"),
        ({"command": "  "}, "expected a shell command"),
        ({"into": "../lib"}, "expected a path inside the source"),
        ({"into": "/lib"}, "expected a path inside the source"),
        ({"environment": {"A": "${PYTHON_VERSION}"}}, "the native step serves every Python"),
        ({"command": "echo ${PYTHON_VERSION}"}, "the native step serves every Python"),
    ],
)
def test_mistakes(native: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        plan_of(native)
