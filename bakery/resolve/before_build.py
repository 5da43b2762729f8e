"""The recipe's command before the build: a step of its own, so that it never sees the secrets of the build."""

from __future__ import annotations

from bakery.plan.dockerfile import Command, Mount, Role, Run, Script, Stage, Step
from bakery.plan.values import Ref, literal
from bakery.resolve.references import declarations, parse, parse_table
from bakery.resolve.stage_inputs import (
    COMPILERS,
    StageInputs,
    ccache_args,
    compiler_prefix,
    literals,
    network_words,
    remove_programs,
    source_mount,
)
from bakery.toolchains.pip_steps import CERTIFICATES, NET

STAGE = "before-build"
"""The stage after the command: what it installed, and its copy of the source in /src."""

_SOURCE = "/source"


def before_build(inputs: StageInputs) -> tuple[Stage, ...]:
    """Return the stage of the command; none for a recipe without one."""
    settings, builder = inputs.settings, inputs.recipe.builder
    if builder.before_build is None:
        return ()
    text, network = builder.before_build.command, builder.before_build.network
    words = (*literals(*[NET] * network), *compiler_prefix(settings), *literals("sh", "-ec", text))
    # One Python builds a shared wheel, in an argument of another name; what the shell itself replaces keeps its own.
    python = Ref("PYTHON_VERSION")
    told = ((python.name, (python,)),) if inputs.shared and python in parse(text) else ()
    copy = Script(f"umask 022 && mkdir -p /src && cp -a {_SOURCE}/. /src")
    commands: tuple[Command | Script, ...] = (
        copy,
        *remove_programs(inputs),
        Script("cd /src"),
        Command(words, (*told, *parse_table(builder.environment))),
    )
    source = source_mount(inputs, writable=False, target=_SOURCE)
    caches = COMPILERS if builder.compiler_cache else ()
    run = Run(commands, (source, *caches, *(CERTIFICATES if network else ())), Role.COMPILE, network=network)
    # The shell itself replaces ${NAME} in the command; all that it needs is the variable.
    args = dict.fromkeys((*declarations((run,)), *declarations((Run((Script(text),)),))))
    comment = f"The recipe's command before the build, without secrets, {network_words(has_network=network)}."
    steps: tuple[Step, ...] = (*args, *ccache_args(settings), run)
    return (Stage(STAGE, literal("builder"), steps, comment, Role.COMPILE, "before-build command"),)


def prepared_source() -> Mount:
    """Return the mount of the source as the command left it; what a step writes there is dropped."""
    return Mount("bind", "/src", source="/src", from_=STAGE, writable=True)
