"""Stages of a recipe whose result is an image: base → packages of the base → packages of the index, with their programs."""

from __future__ import annotations

from bakery.core.names import Phase
from bakery.plan.dockerfile import Cmd, Command, Env, Run, Stage, Step, Workdir
from bakery.plan.values import Ref, literal
from bakery.resolve.base_stages import lowest, stage_lines
from bakery.resolve.materials_stages import image_materials
from bakery.resolve.references import parse
from bakery.resolve.stage_inputs import (
    VENV,
    VENV_COMMAND,
    Parts,
    insert_before_use,
    install_missing,
    install_packages,
    install_python,
    literals,
    shell_programs,
    stage_with_args,
    with_secrets,
)
from bakery.toolchains import pip_steps, program_mounts
from bakery.toolchains.program_mounts import with_programs

PLACE = "image"
"""The place of the packages in a lock."""

_PYTHON = f"{VENV}/bin/python"
_REQUIREMENTS = "image-requirements"
_LINK = program_mounts.path("link_programs.py")
"""Puts programs of packages on PATH, in place of the scripts that start them."""


def image_stages(parts: Parts) -> tuple[Stage, ...]:
    """Return all stages in order."""
    settings = parts.settings
    line = stage_lines(parts).packages
    name = f"{parts.recipe}-image"
    system = settings.texts("image.system-packages")
    runtime = Stage(
        "runtime",
        literal(line.root_stage),
        (*install_missing(parts.base.for_running()), *((install_packages(*system),) if system else ())),
        "What the tools need of the base.",
    )
    words = tuple(map(parse, settings.texts("image.requirements")))
    by, direct = pip_steps.with_environment(VENV), settings.texts("builder.allow-direct")
    resolving = pip_steps.resolve(PLACE, words, VENV_COMMAND, by=by, direct=direct)
    pip, built = pip_steps.pip_mount(_REQUIREMENTS, VENV), pip_steps.built(_REQUIREMENTS, PLACE)
    installing = pip_steps.install_step(PLACE, _REQUIREMENTS, VENV, VENV_COMMAND, mounts=(pip, built))
    steps: tuple[Step, ...] = (
        *install_python(parts),
        with_secrets(parts, Phase.REQUIREMENTS, installing),
        *_programs(parts),
        Env((("PATH", (f"{VENV}/bin:", Ref("PATH"))),)),
        shell_programs(),
        Workdir("/work"),
        Cmd(("bash",)),
    )
    build_stages = (
        *lowest(parts, line),
        runtime,
        stage_with_args(
            _REQUIREMENTS,
            literal("runtime"),
            (*install_python(parts), with_secrets(parts, Phase.REQUIREMENTS, resolving)),
            "All that the tools need, resolved for this cell.",
        ),
        pip_steps.build_stage(PLACE, _REQUIREMENTS, "runtime", mounts=(pip,)),
        stage_with_args(name, literal("runtime"), steps, "The tools and nothing else."),
    )
    materials = image_materials(parts.recipe, line, name, _REQUIREMENTS)
    return with_programs(
        insert_before_use((*build_stages, *materials), pip_steps.lock_stage((*build_stages, *materials)))
    )


def _programs(parts: Parts) -> tuple[Step, ...]:
    """Return the step that puts programs of packages on PATH; none where the recipe names none."""
    programs = parts.settings.mapping("image.programs")
    words = literals(_PYTHON, "-I", _LINK, f"{VENV}/bin", *(f"{name}={path}" for name, path in programs.items()))
    return (Run((Command(words),), network=False),) if programs else ()
