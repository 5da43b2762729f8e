"""``wheel --incremental``: the step that compiles keeps its build folder for the next run.

The build system must record which files each object was made of, and compare them itself: the tables here have the build
backends whose build systems do. Everything else starts without a build folder (``incremental.py``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bakery.core.errors import UsageError
from bakery.core.files import read_plain
from bakery.core.names import TARGET_ARCH, WHEEL_PYTHON, Phase, axis_variable
from bakery.plan.dockerfile import Command, Mount, Run
from bakery.plan.model import Plan
from bakery.plan.values import Ref, Value, literal
from bakery.resolve.references import declarations
from bakery.toolchains import program_mounts
from bakery.toolchains.pip_steps import TOOLS

STAGE = "compile"
_PROGRAM = "incremental.py"
_STORE = "/var/cache/incremental"
_LARGEST = 1 << 20
_FOLDER_VARIABLES = ("SKBUILD_BUILD_DIR", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_BUILD_DIR")

_C = ".c,.cc,.cpp,.cxx,.c++,.C,.cu,.h,.hh,.hpp,.hxx,.h++,.cuh,.inl,.ipp,.tpp,.tcc,.inc"
"""Compilers write down which of these files they read."""


@dataclass(frozen=True, slots=True)
class _Backend:
    """A build backend; the arguments are those of ``incremental.py``, ``options`` are config settings of the build."""

    folder: str
    suffixes: str
    options: tuple[str, ...] = ()


# meson-python has a folder of a random name at this place: objects contain paths relative to it.
_MESON = ".mesonpy-incremental"
_SCIKIT = "/tmp/build"
_BACKENDS = {
    "scikit_build_core.build": _Backend(_SCIKIT, _C),
    "mesonpy": _Backend(f"/src/{_MESON}", _C, (f"build-dir={_MESON}",)),
    "maturin": _Backend(".rustc_info.json", ".rs"),
}


def incremental(root: Path, plan: Plan) -> Plan:
    """Return a plan whose wheels are compiled with the build folder of the last run.

    ``root`` is the folder of the project. Raises UsageError with all reasons why the wheel could be another one.
    """
    stage = next((item for item in plan.stages if item.name == STAGE), None)
    if stage is None:
        raise UsageError(f"--incremental: recipe {plan.recipe} builds no wheel")
    run = next(step for step in stage.steps if isinstance(step, Run))
    index, command = next(
        (number, item)
        for number, item in enumerate(run.commands)
        if isinstance(item, Command) and literal("--wheel") in item.words
    )
    name, problem = _backend_of(root / plan.context / plan.source_context.folder)
    if problems := [*_problems(plan, run, command), *([problem] if problem and plan.source_context.folder else [])]:
        raise UsageError(
            f"--incremental: recipe {plan.recipe} cannot be built incrementally",
            details=problems,
            hint="build it without --incremental: ccache compiles only what changed",
        )
    words = _words(plan, command, _BACKENDS[name])
    commands = (*run.commands[:index], replace(command, words=words), *run.commands[index + 1 :])
    program = Mount("bind", program_mounts.path(_PROGRAM), source=f"/{_PROGRAM}", from_=program_mounts.STAGE)
    # Each cell has a folder and a lock of its own there.
    store = Mount("cache", _STORE, id=f"bakery-incremental-${{{TARGET_ARCH}}}", sharing="shared")
    keeping = replace(run, commands=commands, mounts=(program, *run.mounts, store))
    steps = tuple(keeping if step is run else step for step in stage.steps)
    missing = tuple(arg for arg in declarations(steps) if arg not in steps)
    changed = replace(stage, steps=(*missing, *steps))
    return replace(plan, stages=tuple(changed if item is stage else item for item in plan.stages))


def _problems(plan: Plan, run: Run, command: Command) -> Iterator[str]:
    """Yield the reasons in the recipe; ``command`` is that of ``run`` which builds the wheel."""
    if not plan.source_context.folder:
        yield "source: it is not a folder of this machine, and does not change between two runs"
    if any(Phase.COMPILE in secret.phases for secret in plan.secrets):
        yield "secrets: the build gets a secret, which its folder might keep"
    if run.network:
        yield "builder.network: nothing tells whether what the build downloads has changed"
    if not any(mount.id.startswith("bakery-ccache") for mount in run.mounts):
        yield "builder.compiler-cache: it is off"
    for name, value in command.environment:
        if name in _FOLDER_VARIABLES and value != literal(_SCIKIT):
            yield f"builder.environment.{name}: the build folder must be the one that bakery chooses"
    if any(isinstance(part, str) and "build-dir=" in part for word in command.words for part in word):
        yield "wheel.config-settings: the build folder must be the one that bakery chooses"


def _backend_of(folder: Path) -> tuple[str, str]:
    """Return the build backend of the source, and why it cannot build incrementally; one of them is empty."""
    try:
        text = read_plain(folder / "pyproject.toml", _LARGEST).decode(errors="replace")
        system = tomllib.loads(text).get("build-system", {})
    except (OSError, tomllib.TOMLDecodeError):
        return "", "pyproject.toml: it cannot be read, so the build backend is unknown"
    name = str(system.get("build-backend", "setuptools.build_meta")) if isinstance(system, dict) else ""
    if name in _BACKENDS and not system.get("backend-path"):
        return name, ""
    why = (
        "does not record which headers an extension includes"
        if name.startswith("setuptools")
        else "is not known to record what its files are made of"
    )
    return "", f"pyproject.toml: {name} {why}; {', '.join(_BACKENDS)} do"


def _words(plan: Plan, command: Command, backend: _Backend) -> tuple[Value, ...]:
    """Return the words of the command that builds, with its build folder."""
    axes = dict.fromkeys(axis for cell in plan.cells for axis in cell.axes if axis != "platform")
    names = {axis: axis_variable(axis) for axis in axes}
    if any(WHEEL_PYTHON in cell.args for cell in plan.cells):
        names["python"] = WHEEL_PYTHON
    cell: Value = tuple(part for name in names.values() for part in (Ref(name), " "))
    program = (literal(f"{TOOLS}/bin/python"), literal(program_mounts.path(_PROGRAM)))
    options = (literal(f"-C{option}") for option in backend.options)
    *before, source = command.words
    return (*program, cell, literal(backend.folder), literal(backend.suffixes), *before, *options, source)
