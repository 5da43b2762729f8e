"""Stages of a recipe whose result is an image: base → packages of the base → packages of the index, with their programs."""

from __future__ import annotations

from bakery.names import Phase
from bakery.plan import Cmd, Command, Env, Ref, Run, Stage, Step, Workdir, literal
from bakery.providers import packages
from bakery.resolve.materials import image_materials
from bakery.resolve.parts import VENV, Parts, added, declaring, install_packages, literals, telling, venv
from bakery.resolve.roots import lines, lowest
from bakery.resolve.values import parse

PLACE = "image"
"""The place of the packages in a lock."""

_PYTHON = f"{VENV}/bin/python"
_REQUIREMENTS = "image-requirements"
_LINK = """\
import os, sys, sysconfig
for word in sys.argv[2:]:
    name, _, path = word.partition("=")
    program = os.path.join(sysconfig.get_path("platlib"), path)
    if not os.access(program, os.X_OK):
        sys.exit(f"no package has the program {path}")
    link = os.path.join(sys.argv[1], name)
    if os.path.lexists(link):
        os.remove(link)
    os.symlink(program, link)"""
"""Puts programs of packages on PATH, in place of the scripts that start them."""


def image_stages(parts: Parts) -> tuple[Stage, ...]:
    """Return all stages in order."""
    settings = parts.settings
    line = lines(parts).packages
    name = f"{parts.recipe}-image"
    system = settings.texts("image.system-packages")
    runtime = Stage(
        "runtime",
        literal(line.common),
        (*added(parts.base.for_running()), *((install_packages(*system),) if system else ())),
        "What the tools need of the base.",
    )
    words = tuple(map(parse, settings.texts("image.requirements")))
    by, direct = packages.with_environment(VENV), settings.texts("builder.allow-direct")
    resolving = packages.resolve(PLACE, words, by=by, direct=direct)
    pip, built = packages.pip_mount(_REQUIREMENTS, VENV), packages.built(_REQUIREMENTS, PLACE)
    steps: tuple[Step, ...] = (
        venv(parts),
        telling(parts, Phase.REQUIREMENTS, packages.install_step(PLACE, _REQUIREMENTS, VENV, mounts=(pip, built))),
        *_programs(parts),
        Env((("PATH", (f"{VENV}/bin:", Ref("PATH"))),)),
        Workdir("/work"),
        Cmd(("bash",)),
    )
    found = (
        *lowest(parts, line),
        runtime,
        declaring(
            _REQUIREMENTS,
            literal("runtime"),
            (venv(parts), telling(parts, Phase.REQUIREMENTS, resolving)),
            "All that the tools need, resolved for this cell.",
        ),
        packages.build_stage(PLACE, _REQUIREMENTS, "runtime", mounts=(pip,)),
        declaring(name, literal("runtime"), steps, "The tools and nothing else."),
    )
    told = image_materials(parts.recipe, line, name, _REQUIREMENTS)
    return (packages.lock_stage((*found, *told)), *found, *told)


def _programs(parts: Parts) -> tuple[Step, ...]:
    """Return the step that puts programs of packages on PATH; none where the recipe names none."""
    found = parts.settings.mapping("image.programs")
    words = literals(_PYTHON, "-c", _LINK, f"{VENV}/bin", *(f"{name}={path}" for name, path in found.items()))
    return (Run((Command(words),), network=False),) if found else ()
