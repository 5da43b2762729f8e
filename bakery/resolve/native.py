"""The native step: what does not depend on Python, compiled once and taken in by the wheels of all Pythons."""

from __future__ import annotations

from bakery.core.names import Phase
from bakery.plan.dockerfile import Arg, Command, Env, Mount, Run, Script, Stage, Step
from bakery.plan.values import Ref, literal
from bakery.resolve.references import declarations, parse
from bakery.resolve.stage_inputs import (
    COMPILER_CACHE,
    VENV,
    Parts,
    ccache_env,
    ccache_report,
    compiler_prefix,
    install_packages,
    literals,
    network_words,
    remove_programs,
    source_mount,
    stage_with_args,
    toolkit_stage,
    with_secrets,
)
from bakery.toolchains import pip_steps

OUTPUT = "/native"
"""Where the command leaves what it made."""

_PACKAGES = "native-requirements"
_NOTHING = "bakery: the native command put nothing into /native"


def native_stages(parts: Parts) -> tuple[Stage, ...]:
    """Return the stages of the native step; none for a recipe without one."""
    return (*_requirements(parts), *_tools(parts), _native(parts)) if parts.native_python else ()


def native_inputs(parts: Parts) -> tuple[tuple[Mount, ...], tuple[Command, ...]]:
    """Return the mount and the commands by which a wheel's build takes in what the native step made."""
    if not parts.native_python:
        return (), ()
    into = f"/src/{parts.settings.text('native.into')}"
    mount = Mount("bind", OUTPUT, source=OUTPUT, from_="native")
    return (mount,), (Command(literals("mkdir", "-p", into)), Command(literals("cp", "-a", f"{OUTPUT}/.", into)))


def _requirements(parts: Parts) -> tuple[Stage, ...]:
    """Return the stage that resolves what the step's command calls; none where it calls no Python packages."""
    wanted = tuple(parse(item) for item in parts.settings.texts("native.requirements"))
    if not wanted:
        return ()
    direct = parts.settings.texts("builder.allow-direct")
    step = with_secrets(parts, Phase.REQUIREMENTS, pip_steps.resolve("native", wanted, direct=direct))
    return (stage_with_args(_PACKAGES, literal("base"), (step,), ""),)


def _tools(parts: Parts) -> tuple[Stage, ...]:
    wanted = parts.settings.texts("native.system-packages")
    comment = "Tools of the native step, of any Python."
    steps: tuple[Step, ...] = (install_packages(*wanted),) if wanted else ()
    if not parts.settings.texts("native.requirements"):
        return (stage_with_args("native-tools", literal(toolkit_stage(parts)), steps, comment),)
    below = (stage_with_args("native-system", literal(toolkit_stage(parts)), steps, ""),) if steps else ()
    base = below[0].name if below else toolkit_stage(parts)
    made = pip_steps.make_venv(VENV)
    by = pip_steps.with_environment(VENV)
    mounts = (pip_steps.built(_PACKAGES, "native"),)
    installing = pip_steps.install_step("native", _PACKAGES, VENV, made, by=by, mounts=mounts)
    path = Env((("PATH", (f"{VENV}/bin:", Ref("PATH"))),))
    tools = (with_secrets(parts, Phase.REQUIREMENTS, installing), path)
    return (
        *below,
        pip_steps.build_stage("native", _PACKAGES, base, by=pip_steps.WITH_TOOLS),
        stage_with_args("native-tools", literal(base), tools, comment),
    )


def _native(parts: Parts) -> Stage:
    settings = parts.settings
    ccache = settings.flag("builder.compiler-cache")
    text = settings.text("native.command")
    environment = tuple((key, parse(value)) for key, value in settings.mapping("native.environment").items())
    command = Command((*compiler_prefix(settings), *literals("sh", "-ec", text)), (*ccache_env(settings), *environment))
    check = Script(f"if test -z \"$(ls -A {OUTPUT})\"; then echo '{_NOTHING}' >&2; exit 1; fi")
    run = Run(
        (
            Command(literals("umask", "022")),
            *remove_programs(parts),
            Command(literals("mkdir", "-p", OUTPUT)),
            Command(literals("cd", "/src")),
            command,
            *ccache_report(settings),
            check,
        ),
        (source_mount(parts, writable=True), *(COMPILER_CACHE if ccache else ())),
        network=settings.flag("native.network"),
    )
    run = with_secrets(parts, Phase.NATIVE, run)
    # The shell itself replaces ${NAME} in the command; all that it needs is the variable.
    declared = dict.fromkeys((*declarations((run,)), *declarations((Run((Script(text),)),))))
    arguments = (Arg("SOURCE_DATE_EPOCH"), *declared, *((Arg("TARGETARCH"),) if ccache else ()))
    return Stage(
        "native",
        literal("native-tools"),
        (*arguments, run),
        f"Compiled once for all Pythons, {network_words(run)}; what it writes in /src is dropped.",
    )
