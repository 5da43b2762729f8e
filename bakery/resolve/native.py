"""The native step: compiles what does not depend on Python once, for the wheels of all Pythons."""

from __future__ import annotations

from dataclasses import replace

from bakery.core.target_kinds import Phase
from bakery.plan.dockerfile import Command, Env, Mount, Role, Run, Script, Stage, Step
from bakery.plan.values import literal
from bakery.recipe.models import Native
from bakery.resolve.asking import asking_stages, results
from bakery.resolve.references import declarations, parse, parse_all
from bakery.resolve.stage_inputs import (
    VENV,
    VENV_PATH,
    StageInputs,
    Turn,
    ccache_args,
    compile_step,
    install_packages,
    literals,
    network_words,
    toolkit_stage,
    with_args,
    with_secrets,
)
from bakery.toolchains import pip_steps

STAGE = "native"
"""The stage with the result; the names of all that are the step's own begin with it."""

OUTPUT = "/native"
"""The folder for the results of the command."""

_PACKAGES = "native-requirements"
_TOOLS = "Tools of the native step, of any Python."
_NOTHING = "bakery: the native command put nothing into /native"


def native_stages(inputs: StageInputs) -> tuple[Stage, ...]:
    """Return the stages of the native step; none for a recipe without one."""
    native = inputs.recipe.native
    return (*_requirements(inputs, native), *_tools(inputs, native), *_native(inputs, native)) if native else ()


def native_inputs(inputs: StageInputs) -> tuple[tuple[Mount, ...], tuple[Command, ...]]:
    """Return the mounts and the commands that copy the results of the native step into the source."""
    if not (native := inputs.recipe.native):
        return (), ()
    mounts: list[Mount] = []
    commands: list[Command] = []
    for ending, folder in [(f"-{build.tag}", build.folder) for build in inputs.builds] or [("", native.into)]:
        into = parse(f"/src/{folder}")
        # One of the two is empty if the step may ask for the repository.
        more = (
            replace(mount, from_=f"{mount.from_}{ending}")
            for mount in results(inputs, STAGE, OUTPUT, f"{OUTPUT}{ending}-again")
        )
        own = (Mount("bind", f"{OUTPUT}{ending}", source=OUTPUT, from_=f"{STAGE}{ending}"), *more)
        mounts += own
        commands.append(Command((*literals("mkdir", "-p"), into)))
        commands += (Command((*literals("cp", "-a", f"{mount.target}/."), into)) for mount in own)
    return tuple(mounts), tuple(commands)


def _requirements(inputs: StageInputs, native: Native) -> tuple[Stage, ...]:
    """Return the stage that resolves the step's Python packages; none if it needs no packages."""
    requirements = parse_all(native.requirements)
    if not requirements:
        return ()
    direct = inputs.recipe.builder.allow_direct
    step = with_secrets(inputs, Phase.REQUIREMENTS, pip_steps.resolve("native", requirements, direct=direct))
    says = "resolve requirements of the native step"
    return (with_args(Stage(_PACKAGES, literal("base"), (step,), _TOOLS, Role.PACKAGES, says)),)


def _tools(inputs: StageInputs, native: Native) -> tuple[Stage, ...]:
    packages = native.system_packages
    steps: tuple[Step, ...] = (install_packages(*packages),) if packages else ()
    tools = Stage(
        "native-tools", literal(toolkit_stage(inputs)), steps, _TOOLS, Role.SYSTEM, "tools of the native step"
    )
    if not native.requirements:
        return (with_args(tools),)
    system = replace(tools, name="native-system", comment="", says="system packages of the native step")
    below = (system,) if steps else ()
    base = below[0].name if below else toolkit_stage(inputs)
    by, mounts = pip_steps.with_environment(VENV), (pip_steps.built(_PACKAGES, "native"),)
    install = pip_steps.install_step("native", _PACKAGES, VENV, by=by, mounts=mounts)
    make = Run((pip_steps.make_venv(VENV),), (), Role.SYSTEM)
    building = "build requirements of the native step"
    steps = (make, with_secrets(inputs, Phase.REQUIREMENTS, install), Env((VENV_PATH,)))
    return (
        *map(with_args, below),
        pip_steps.build_stage("native", _PACKAGES, base, building, by=pip_steps.WITH_TOOLS),
        with_args(replace(tools, base=literal(base), steps=steps, comment="", role=Role.PACKAGES)),
    )


def _native(inputs: StageInputs, native: Native) -> tuple[Stage, ...]:
    text = native.command

    def run(turn: Turn) -> Run:
        step = compile_step(
            inputs,
            Phase.NATIVE,
            native,
            turn,
            literals("sh", "-ec", text),
            before=(Command(literals("mkdir", "-p", OUTPUT)), Command(literals("cd", "/src"))),
        )
        check = Script(f"if test -z \"$(ls -A {OUTPUT})\"; then echo '{_NOTHING}' >&2; exit 1; fi")
        # A step that may stop at a question checks its result itself.
        return step if turn.words else replace(step, commands=(*step.commands, check))

    # The shell itself replaces ${NAME} in the command; all that it needs is the variable.
    args = declarations((Run((Script(text),)),))
    return asking_stages(
        inputs,
        STAGE,
        "native-tools",
        OUTPUT,
        run,
        f"Compiled once for all Pythons, {network_words(has_network=native.network)}; what it writes in /src is dropped.",
        *dict.fromkeys((*args, *ccache_args(inputs.settings))),
        role=Role.COMPILE,
        says="native step",
        full=True,
    )
