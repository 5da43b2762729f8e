"""The stages that test a wheel: from a clean base, with the wheel, its requirements and those of the recipe's test."""

from __future__ import annotations

from dataclasses import replace

from bakery.core.names import Phase
from bakery.plan.dockerfile import Command, Env, Mount, Role, Run, Script, Stage, Step
from bakery.plan.values import literal
from bakery.resolve.base_stages import Lines
from bakery.resolve.materials_stages import TEST_REQUIREMENTS
from bakery.resolve.naming import required_texts, tested_framework
from bakery.resolve.references import declarations, parse
from bakery.resolve.stage_inputs import (
    VENV,
    VENV_PATH,
    VENV_PYTHON,
    Parts,
    environment_stages,
    framework_layer,
    install_missing,
    literals,
    source_mount,
    with_args,
    with_secrets,
)
from bakery.toolchains import pip_steps, program_mounts
from bakery.toolchains.pip_steps import NET, NETWORK
from bakery.toolchains.toolkits.base import STUBS

TEST = "test"
"""The place of a lock with what the test needs."""

FIRST = "/wheels/first"
"""The folder of the wheel that is tested, if one build has several names."""

REQUIRES = "/requires"
"""A folder, since BuildKit looks at all files beside the one that a step mounts from another stage."""

RUN_LIST = f"{REQUIRES}/run.txt"


def list_mount(file: str, stage: str = "project") -> Mount:
    """Return the mount of a list of requirements that a stage made."""
    return Mount("bind", file, source=file, from_=stage)


def test_stages(parts: Parts, lines: Lines) -> tuple[Stage, ...]:
    """Return the stages that test the wheel."""
    settings = parts.settings
    runtime = Stage(
        "runtime",
        literal(lines.runs.root_stage),
        install_missing(parts.base.for_running()),
        "A clean base, with nothing of the builder, and all that the test needs.",
        Role.SYSTEM,
        "Python of the test",
    )
    requirements = dict.fromkeys(
        (*tested_framework(settings), *required_texts(settings), *settings.recipe.test.requirements)
    )
    words = (*literals("-r", RUN_LIST), *map(parse, requirements))
    packages, setup = environment_stages(parts, TEST, TEST_REQUIREMENTS, words, "", list_mount(RUN_LIST))
    # With a root file system of its own, the test cannot share what was installed on the builder's.
    shares = lines.runs == lines.packages
    layer, add_layer = framework_layer(
        parts,
        TEST_REQUIREMENTS,
        "test-framework",
        lines.packages.base if shares else runtime.name,
        *(() if shares else (pip_steps.pip_mount(TEST_REQUIREMENTS, VENV),)),
    )
    # Of several names of one build, the first is installed.
    if settings.recipe.wheel.also_named:
        wheel = Mount("bind", "/wheels", source=FIRST, from_="repair")
    else:
        wheel = Mount("bind", "/wheels", source="/", from_=f"{parts.recipe.name}-wheel")
    direct = settings.recipe.builder.allow_direct
    allowed = f"--direct={','.join(direct)} " if direct else ""
    install = Script(f"{NET} {pip_steps.PIP}/bin/python -I -S {pip_steps.PROGRAM} wheel {VENV} {allowed}/wheels/*.whl")
    mounts = (wheel, pip_steps.lock_mount(TEST), pip_steps.pip_mount(TEST_REQUIREMENTS, VENV), *NETWORK)
    checks: tuple[Step, ...] = (
        with_secrets(parts, Phase.REQUIREMENTS, Run((install,), mounts, Role.PACKAGES)),
        Run((_smoke(parts),), (wheel, *_driver_mounts(parts)), Role.TEST, network=False),
        *_command(parts),
    )
    says, about = "install requirements of the test", "The wheel alone: loaded, imported, tried."
    return (
        runtime,
        *packages,
        *(replace(stage, comment="") for stage in layer),
        with_args(Stage("test-env", literal(packages[0].name), (*add_layer, setup), "", Role.PACKAGES, says)),
        with_args(Stage(f"{parts.recipe.name}-test", literal("test-env"), checks, about, Role.TEST, "test")),
    )


def _driver_mounts(parts: Parts) -> tuple[Mount, ...]:
    """Return the mount of the driver's stub, for toolkits that have one."""
    return (Mount("bind", "/driver", source=STUBS, from_="toolkit"),) if parts.toolkits else ()


def _smoke(parts: Parts) -> Command:
    settings = parts.settings
    words = [*literals(VENV_PYTHON, program_mounts.path("smoke.py"), "/wheels")]
    words += literals("--driver", "/driver") if parts.toolkits else ()
    words += literals("--load") if settings.recipe.test.load_shared_objects else ()
    words += [word for module in settings.recipe.test.imports for word in literals("--import", module)]
    return Command(tuple(words))


def _command(parts: Parts) -> tuple[Step, ...]:
    settings = parts.settings
    command = settings.recipe.test.command
    # No bake has a GPU: `wheel-bakery gpu-test` runs the command.
    if not command or settings.recipe.test.gpu:
        return ()
    files = settings.recipe.test.files
    copies = tuple(Command(literals("cp", "-r", f"/src/{item}", "/work/")) for item in files)
    into = Script("mkdir -p /work && cd /work")
    run = Command(literals("sh", "-c", command))
    mounts = (source_mount(parts, writable=False),) if files else ()
    # The shell itself replaces ${NAME} here; all that it needs is the variable.
    declared = declarations((Run((Script(command),)),))
    return (
        *declared,
        Env((VENV_PATH,)),
        with_secrets(parts, Phase.TEST, Run((into, *copies, run), mounts, network=settings.recipe.test.network)),
    )
