"""Stages of a recipe that builds an image: base → system packages → packages of the index, with their programs."""

from __future__ import annotations

from bakery.plan.dockerfile import Cmd, Command, Env, Role, Run, Stage, Step, Workdir
from bakery.plan.values import literal
from bakery.recipe.models import Image
from bakery.resolve.base_stages import lowest, stage_lines
from bakery.resolve.materials_stages import image_materials
from bakery.resolve.references import parse_all
from bakery.resolve.stage_inputs import (
    VENV,
    VENV_PATH,
    VENV_PYTHON,
    StageInputs,
    environment_stages,
    insert_before_use,
    install_missing,
    install_packages,
    literals,
    with_args,
)
from bakery.toolchains import pip_steps, program_mounts
from bakery.toolchains.program_mounts import SHELL

PLACE = "image"
"""The place of the packages in a lock."""

_REQUIREMENTS = "image-requirements"
_LINK = program_mounts.path("link_programs.py")
"""Puts programs of packages on PATH, in place of the scripts that start them."""


def image_stages(inputs: StageInputs) -> tuple[Stage, ...]:
    """Return all stages in order."""
    image = inputs.recipe.image
    assert image
    line = stage_lines(inputs).packages
    name = f"{inputs.recipe.name}-image"
    system = image.system_packages
    runtime = Stage(
        "runtime",
        literal(line.root_stage),
        (*install_missing(inputs.base.for_running()), *((install_packages(*system),) if system else ())),
        "What the tools need of the base.",
        Role.SYSTEM,
        "system packages of the image",
    )
    requirements = parse_all(image.requirements)
    comment = "All that the tools need, resolved for this cell."
    packages, setup = environment_stages(inputs, PLACE, _REQUIREMENTS, requirements, comment)
    steps = (setup, *_programs(image), Env((VENV_PATH,)), SHELL, Workdir("/work"), Cmd(("bash",)))
    about = "The tools and nothing else."
    stages = (
        *lowest(inputs, line),
        runtime,
        *packages,
        with_args(Stage(name, literal(packages[0].name), steps, about, Role.PACKAGES, "install the image's packages")),
        *image_materials(inputs.recipe.name, line, name, _REQUIREMENTS),
    )
    return insert_before_use(stages, pip_steps.lock_stage(stages))


def _programs(image: Image) -> tuple[Step, ...]:
    """Return the step that puts programs of packages on PATH; none where the recipe names none."""
    programs = image.programs
    words = literals(VENV_PYTHON, "-I", _LINK, f"{VENV}/bin", *(f"{name}={path}" for name, path in programs.items()))
    return (Run((Command(words),), (), Role.FINISH, network=False),) if programs else ()
