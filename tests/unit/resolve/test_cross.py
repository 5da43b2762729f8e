"""Two architectures of Linux: what compiles on whose platform, on which base images, and how a plan says it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import plans
import pytest
from rich.console import Console

from bakery.cli.tables.plan import print_cells
from bakery.core.target_kinds import Kind
from bakery.engine import platform_support
from bakery.engine.nodes import Node, NodeStatus
from bakery.plan.dockerfile import Run
from bakery.plan.model import Plan
from bakery.plan.values import substitute
from bakery.runs.bake_session import BakeSession
from bakery.runs.buildx.board import Listener
from bakery.runs.lock.pins import pins_of

BOTH = 'platforms = ["linux/amd64", "linux/arm64"]\n'
CROSS = f"{BOTH}[builder]\ncross = true\n"
BASE = "debian:bookworm-slim"
AMD, ARM = "cp311-linux_x86_64", "cp311-linux_aarch64"


def plan(folder: Path, text: str) -> Plan:
    return plans.written(folder, f'name = "demo"\n{text}')


def stands_on_builder(made: Plan, name: str) -> bool:
    """Whether a stage stands on an image for whoever builds."""
    stages = {stage.name: stage for stage in made.stages}
    stage = stages[name]
    while (below := substitute(stage.base, {"PYTHON_VERSION": "3.11"})) in stages:
        stage = stages[below]
    assert below == BASE
    return stage.on_builder


def test_what_compiles_is_on_the_platform_of_who_builds(tmp_path: Path) -> None:
    made = plan(tmp_path, CROSS)
    builds = ("root", "tools-requirements", "project", "requirements", "toolkit", "builder", "compile", "repair")
    assert all(stands_on_builder(made, name) for name in (*builds, "demo-builder", "builder-materials"))
    tests = ("runtime", "test-requirements", "test-env", "demo-test", "test-env-materials")
    assert not any(stands_on_builder(made, name) for name in tests)
    plain = plan(tmp_path, BOTH)
    assert not plain.crosses
    assert not any(stage.on_builder for stage in plain.stages)


def test_libraries_are_for_both_platforms(tmp_path: Path) -> None:
    made = plan(tmp_path, f'{CROSS}system-packages = ["zlib1g-dev"]\n')
    builder = next(stage for stage in made.stages if stage.name == "builder-system")
    first = next(step for step in builder.steps if isinstance(step, Run))
    (command,) = first.commands
    words = ["/programs/net", "cross-tools", "install-packages", "zlib1g-dev"]
    assert [word[0] for word in command.words] == words  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("builders", "amd", "arm"),
    [
        (["linux/amd64"], ["linux/amd64"], ["linux/amd64", "linux/arm64 for tests"]),
        (["linux/arm64"], ["linux/arm64", "linux/amd64 for tests"], ["linux/arm64"]),
        (["linux/arm64", "linux/amd64"], ["linux/arm64", "linux/amd64"], ["linux/arm64", "linux/amd64"]),
    ],
)
def test_base_images(tmp_path: Path, builders: list[str], amd: list[str], arm: list[str]) -> None:
    made = plan(tmp_path, CROSS).for_builders(builders)
    told = {cell.id: [i.platform + " for tests" * i.tests for i in cell.images] for cell in made.cells}
    assert told == {AMD: amd, ARM: arm}
    assert {image.ref for cell in made.cells for image in cell.images} == {BASE}
    plain = plan(tmp_path, BOTH)
    assert plain.for_builders(builders) == plain


def bench(made: Plan) -> BakeSession:
    """Return a bench whose engine has the base for arm64 under a name of its own."""
    names = {(BASE, "linux/amd64"): BASE, (BASE, "linux/arm64"): "own/base:arm64"}
    return BakeSession(Path(), made, {}, names, {}, Listener(), Path())


def test_a_base_of_two_platforms_is_named_for_each(tmp_path: Path) -> None:
    made = plan(tmp_path, CROSS).for_builders(["linux/amd64"])
    held = pins_of(bench(made), tuple(made.targets()), {}, strict=False).overrides
    assert held[f"test-{ARM}"] == (f"test-{ARM}.contexts.{BASE}::linux/arm64=docker-image://own/base:arm64",)
    assert held[f"wheel-{ARM}"] == held[f"dev-{ARM}"] == held[f"test-{AMD}"] == ()
    plain = plan(tmp_path, BOTH)
    held = pins_of(bench(plain), tuple(plain.targets()), {}, strict=False).overrides
    assert held[f"wheel-{ARM}"] == (f"wheel-{ARM}.contexts.{BASE}=docker-image://own/base:arm64",)


def test_a_wheel_alone_needs_no_base_of_its_platform(tmp_path: Path) -> None:
    made = plan(tmp_path, CROSS).for_builders(["linux/amd64"])
    needed = {
        target.kind: {image.platform for image in target.images} for target in made.targets() if ARM in target.name
    }
    assert needed[Kind.WHEEL] == needed[Kind.DEV] == {"linux/amd64"}
    assert needed[Kind.TEST] == needed[Kind.MATERIALS] == {"linux/amd64", "linux/arm64"}


@pytest.mark.parametrize(
    ("text", "emulated", "arm"),
    [
        (BOTH, True, "emulated"),
        (BOTH, False, "none"),
        (CROSS, True, "cross, test emulated"),
        (CROSS, False, "cross, test none"),
    ],
)
def test_how_a_machine_has_platforms(tmp_path: Path, text: str, emulated: bool, arm: str) -> None:
    made = plan(tmp_path, text)
    found = platform_support.here(made, "linux/amd64", lambda _: emulated)
    assert found == {AMD: "native", ARM: arm}
    said = StringIO()
    print_cells(Console(file=said, width=200), made, (), found)
    (row,) = (line for line in said.getvalue().splitlines() if ARM in line)
    assert arm in row.split("linux/arm64")[1]


def status(name: str, *offered: str, said: tuple[str, ...] = ()) -> NodeStatus:
    return NodeStatus(Node(name, f"bakery-farm--{name}", "remote", platforms=said), platforms=said or offered)


@pytest.mark.parametrize(
    ("text", "statuses", "arm"),
    [
        (BOTH, [status("a", "linux/amd64"), status("b", "linux/arm64", "linux/amd64")], "node b"),
        (CROSS, [status("a", "linux/amd64", "linux/arm64"), status("b", said=("linux/arm64",))], "node b"),
        (CROSS, [status("a", "linux/amd64", "linux/arm64")], "cross, test emulated: node a"),
        (BOTH, [status("a", "linux/amd64", "linux/arm64")], "emulated: node a"),
        (BOTH, [status("a", "linux/amd64")], "none"),
    ],
)
def test_how_nodes_have_platforms(tmp_path: Path, text: str, statuses: list[NodeStatus], arm: str) -> None:
    found = platform_support.on_nodes(plan(tmp_path, text), statuses)
    assert (found[AMD], found[ARM]) == ("node a", arm)


def test_a_native_plan_says_nothing_of_platforms(tmp_path: Path) -> None:
    made = plan(tmp_path, 'platforms = ["linux/amd64"]\n')
    said = StringIO()
    print_cells(Console(file=said, width=200), made, (), platform_support.here(made, "linux/amd64", lambda _: False))
    assert "platform by" not in said.getvalue()
