"""The recipe's command before the build: a step of its own, so that it never sees the secrets of the build."""

from __future__ import annotations

from bakery.plan.dockerfile import Command, Mount, Run, Script, Stage
from bakery.plan.values import literal
from bakery.resolve.references import declarations
from bakery.resolve.stage_inputs import (
    COMPILERS,
    Parts,
    ccache_args,
    compiler_prefix,
    literals,
    network_words,
    remove_programs,
    source_mount,
)
from bakery.toolchains.pip_steps import CERTIFICATES

STAGE = "before-build"
"""The stage after the command: what it installed, and its copy of the source in /src."""

_COMMAND, _SOURCE = "builder.before-build.command", "/source"


def before_build(parts: Parts) -> tuple[Stage, ...]:
    """Return the stage of the command; none for a recipe without one."""
    settings = parts.settings
    text = settings.text(_COMMAND)
    if not text:
        return ()
    network = settings.flag("builder.before-build.network")
    words = (*literals(*["net"] * network), *compiler_prefix(settings), *literals("sh", "-ec", text))
    copy = Script(f"umask 022 && mkdir -p /src && cp -a {_SOURCE}/. /src")
    commands: tuple[Command | Script, ...] = (
        copy,
        *remove_programs(parts),
        Script("cd /src"),
        Command(words, settings.pairs("builder.environment")),
    )
    source = source_mount(parts, writable=False, target=_SOURCE)
    caches = COMPILERS if settings.flag("builder.compiler-cache") else ()
    run = Run(commands, (source, *caches, *(CERTIFICATES if network else ())), network=network)
    # The shell itself replaces ${NAME} in the command; all that it needs is the variable.
    args = dict.fromkeys((*declarations((run,)), *declarations((Run((Script(text),)),))))
    comment = f"The recipe's command before the build, without secrets, {network_words(parts, 'builder.before-build')}."
    return (Stage(STAGE, literal("builder"), (*args, *ccache_args(settings), run), comment),)


def prepared_source() -> Mount:
    """Return the mount of the source as the command left it; what a step writes there is dropped."""
    return Mount("bind", "/src", source="/src", from_=STAGE, writable=True)
