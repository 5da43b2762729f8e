"""Stages that list what a cell is made of: packages of the index and of the base, and tools. Nothing is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bakery.core.target_kinds import INGREDIENTS
from bakery.plan.dockerfile import Command, Copy, Mount, Role, Run, Script, Stage
from bakery.plan.values import Ref, literal
from bakery.resolve.base_stages import Line, Lines
from bakery.resolve.rust import PROJECT
from bakery.resolve.stage_inputs import SCOPE_STAGE, VENV_PYTHON, StageInputs, literals
from bakery.toolchains import pip_steps, program_mounts
from bakery.toolchains.pip_steps import CERTIFICATES, NET, TOOLS

SUITES = "suites"
TEST_REQUIREMENTS = "test-requirements"
"""The stage that resolves what the test installs; of the test of an extra, a name that begins with it."""

TEST_ENVIRONMENT = "test-env"

_TOOLS_PYTHON = f"{TOOLS}/bin/python"
_PROGRAM = program_mounts.path("materials.py")
_FOLDER = "/bakery/materials"
_BASE = "/bakery/base"
"""The folder with the lists of a base image's packages."""

_TOOLKIT = "toolkit-requirements"


def material_stages(inputs: StageInputs, lines: Lines, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages that list what ``stages`` are made of.

    The last two contain the lists: `INGREDIENTS` those of the wheel, the other one also those of its test.
    """
    resolving = [stage.name for stage in stages if any(isinstance(step, Run) and step.resolves for step in stage.steps)]
    tests = [name for name in resolving if name.startswith(TEST_REQUIREMENTS)]
    environments = [name.replace(TEST_REQUIREMENTS, TEST_ENVIRONMENT) for name in tests]
    of_cuda = [stage.name for stage in stages if stage.name in resolving and stage.role is Role.CUDA]
    release = ("cuda-", Ref("CUDA_VERSION%%.*"), "-requirements")
    toolkit = (Stage(_TOOLKIT, release),) if of_cuda else ()
    about = f"For records and locks: what a wheel is made of ({INGREDIENTS}), and its test, too."
    native = (lines.compiles,) if inputs.native_python else ()
    images = [
        _image("builder", lines.packages, _TOOLS_PYTHON),
        *(_image("native-tools", line, _TOOLS_PYTHON) for line in native),
    ]
    bases_of_images = dict.fromkeys((lines.packages, *native, lines.runs))
    crates = (Copy((f"{PROJECT}/materials/",), "/system/", "project"),) if inputs.recipe.builder.rust else ()
    tested = [_image(name, lines.runs, VENV_PYTHON) for name in environments]
    suites = _suites(lines.packages.base, _TOOLS_PYTHON)
    # A stage that is the base of another: the other one has its lists, too.
    bases = {stage.base for stage in stages if stage.name in resolving}
    others = [name for name in resolving if name not in (*of_cuda, *tests) and literal(name) not in bases]
    lists = (*_packages(*others, *(stage.name for stage in toolkit)), *_system(*images), *crates)
    return (
        *(_base_packages(line, "" if index else about) for index, line in enumerate(bases_of_images)),
        *images,
        *tested,
        suites,
        *toolkit,
        Stage(
            INGREDIENTS,
            # Equal lists of two projects are no equal steps: see `SCOPE`.
            literal(SCOPE_STAGE),
            tuple(replace(copy, link=False) for copy in lists),
            says="list what the wheel was built from",
        ),
        Stage(
            f"{inputs.recipe.name}-materials",
            literal(INGREDIENTS),
            (*_packages(*tests), *_system(*tested, suites)),
        ),
    )


def image_materials(recipe: str, line: Line, image: str, requirements: str) -> tuple[Stage, ...]:
    """Return the stages that list what ``image`` is made of; ``requirements`` resolves its packages."""
    packages, suites = _image(image, line, VENV_PYTHON), _suites(image, VENV_PYTHON)
    steps = (*_packages(requirements), *_system(packages, suites))
    return (
        _base_packages(line, "For records and locks: what the image is made of, and nothing else."),
        packages,
        suites,
        Stage(f"{recipe}-materials", literal("scratch"), steps),
    )


def _packages(*stages: str) -> tuple[Copy, ...]:
    return tuple(Copy((f"{pip_steps.RESOLVED}/",), "/packages/", name) for name in stages)


def _system(*stages: Stage) -> tuple[Copy, ...]:
    return tuple(Copy((f"{_FOLDER}/",), "/system/", stage.name) for stage in stages)


def _base_packages(line: Line, comment: str) -> Stage:
    """Return the stage that lists the packages of a base image."""
    run = Run((Command(literals(program_mounts.path("base-packages"), _BASE)),), (), Role.RECORDS, network=False)
    says = "list what the base has"
    return Stage(_listing(line), literal(line.root_stage), (run,), comment, Role.RECORDS, says)


def _listing(line: Line) -> str:
    return f"{line.root_stage}-packages"


def _image(stage: str, line: Line, python: str) -> Stage:
    command = Script(f"{python} {_PROGRAM} image {stage} {_BASE}")
    below = Mount("bind", _BASE, source=_BASE, from_=_listing(line))
    run = Run((command,), (below,), Role.RECORDS, network=False)
    says = f"list what stage {stage} has"
    return Stage(f"{stage}-materials", literal(stage), (run,), role=Role.RECORDS, says=says)


def _suites(stage: str, python: str) -> Stage:
    command = Script(f"{NET} {python} {_PROGRAM} suites")
    run = Run((command,), (pip_steps.lock_mount(SUITES), *CERTIFICATES), Role.RECORDS)
    return Stage(SUITES, literal(stage), (run,), role=Role.RECORDS, says="list system packages")
