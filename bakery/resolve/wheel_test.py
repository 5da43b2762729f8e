"""The stages that test a wheel: from a clean base, with the wheel, its requirements and those of the recipe's test."""

from __future__ import annotations

from dataclasses import replace

from bakery.core.target_kinds import Phase
from bakery.plan.cells import Merged
from bakery.plan.dockerfile import Command, Env, Mount, Role, Run, Script, Stage, Step
from bakery.plan.values import literal
from bakery.resolve.base_stages import Lines
from bakery.resolve.materials_stages import TEST_ENVIRONMENT, TEST_REQUIREMENTS
from bakery.resolve.naming import required_texts, tested_framework
from bakery.resolve.references import declarations, parse
from bakery.resolve.stage_inputs import (
    VENV,
    VENV_PATH,
    VENV_PYTHON,
    StageInputs,
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

_TEST = "test"

FIRST = "/wheels/first"
"""The folder of the wheel that is tested, if one build has several names."""

REQUIRES = "/requires"
"""A folder, since BuildKit looks at all files beside the one that a step mounts from another stage."""


def test_place(build: Merged | None) -> str:
    """Return the place of a lock with what the test needs: of the extra of a build, or of none."""
    return f"{_TEST}{_ending(build.extra if build else '')}"


def run_list(extra: str = "") -> str:
    """Return the list of the project's own requirements, or of those of an extra."""
    return f"{REQUIRES}/run{_ending(extra)}.txt"


def list_mount(file: str, stage: str = "project") -> Mount:
    """Return the mount of a list of requirements that a stage made."""
    return Mount("bind", file, source=file, from_=stage)


def _ending(extra: str) -> str:
    return f"-{extra}" if extra else ""


def test_stages(inputs: StageInputs, lines: Lines) -> tuple[Stage, ...]:
    """Return the stages that test the wheel: once, or with each extra of ``native.extra`` in an environment of its own."""
    runtime = Stage(
        "runtime",
        literal(lines.runs.root_stage),
        install_missing(inputs.base.for_running()),
        "A clean base, with nothing of the builder, and all that the test needs.",
        Role.SYSTEM,
        "Python of the test",
    )
    builds = [build for build in inputs.builds if build.extra]
    if not builds:
        return (runtime, *_test(inputs, lines))
    name = f"{inputs.recipe.name}-test"
    tests = tuple(Mount("bind", f"/tested/{build.extra}", from_=f"{name}-{build.extra}") for build in builds)
    passed = Run((Command(literals("true")),), tests, network=False)
    return (
        runtime,
        *(stage for build in builds for stage in _test(inputs, lines, build)),
        Stage(name, literal(runtime.name), (passed,), "The test passed with each extra.", Role.TEST, "test"),
    )


def _test(inputs: StageInputs, lines: Lines, build: Merged | None = None) -> tuple[Stage, ...]:
    """Return the stages of a test: with the extra of a build, or with none."""
    settings, extra = inputs.settings, build.extra if build else ""
    place, listed = test_place(build), f"{TEST_REQUIREMENTS}{_ending(extra)}"
    requirements = dict.fromkeys(
        (
            *tested_framework(settings),
            *required_texts(settings),
            *(build.requires if build else ()),
            *settings.recipe.test.requirements,
        )
    )
    lists = dict.fromkeys((run_list(), run_list(extra)))
    words = (*literals(*(word for file in lists for word in ("-r", file))), *map(parse, requirements))
    packages, setup = environment_stages(inputs, place, listed, words, "", *map(list_mount, lists))
    # With a root file system of its own, the test cannot share what was installed on the builder's.
    shares = lines.runs == lines.packages
    layer, add_layer = framework_layer(
        inputs,
        listed,
        f"test-framework{_ending(extra)}",
        lines.packages.base if shares else "runtime",
        *(() if shares else (pip_steps.pip_mount(listed, VENV),)),
    )
    # Of several names of one build, the first is installed.
    if settings.recipe.wheel.also_named:
        wheel = Mount("bind", "/wheels", source=FIRST, from_="repair")
    else:
        wheel = Mount("bind", "/wheels", source="/", from_=f"{inputs.recipe.name}-wheel")
    direct = settings.recipe.builder.allow_direct
    options = f"--direct={','.join(direct)} " * bool(direct) + f"--extra={extra} " * bool(extra)
    install = Script(f"{NET} {pip_steps.PIP}/bin/python -I -S {pip_steps.PROGRAM} wheel {VENV} {options}/wheels/*.whl")
    mounts = (wheel, pip_steps.lock_mount(place), pip_steps.pip_mount(listed, VENV), *NETWORK)
    checks: tuple[Step, ...] = (
        with_secrets(inputs, Phase.REQUIREMENTS, Run((install,), mounts, Role.PACKAGES)),
        Run((_smoke(inputs, build),), (wheel, *_driver_mounts(inputs)), Role.TEST, network=False),
        *_command(inputs, build),
    )
    says, of_extra = "install requirements of the test", f" of the extra {extra}" if extra else ""
    about = "The wheel alone: loaded, imported, tried."
    name, environment = f"{inputs.recipe.name}-test{_ending(extra)}", f"{TEST_ENVIRONMENT}{_ending(extra)}"
    return (
        *packages,
        *(replace(stage, comment="") for stage in layer),
        with_args(
            Stage(environment, literal(packages[0].name), (*add_layer, setup), "", Role.PACKAGES, f"{says}{of_extra}")
        ),
        with_args(Stage(name, literal(environment), checks, about, Role.TEST, f"test{of_extra}")),
    )


def _driver_mounts(inputs: StageInputs) -> tuple[Mount, ...]:
    """Return the mount of the driver's stub, for toolkits that have one."""
    return (Mount("bind", "/driver", source=STUBS, from_="toolkit"),) if inputs.toolkits else ()


def _smoke(inputs: StageInputs, build: Merged | None) -> Command:
    settings = inputs.settings
    words = [*literals(VENV_PYTHON, program_mounts.path("smoke.py"), "/wheels")]
    words += literals("--driver", "/driver") if inputs.toolkits else ()
    words += literals("--load") if settings.recipe.test.load_shared_objects else ()
    words += [word for module in settings.recipe.test.imports for word in literals("--import", module)]
    others = [other.folder for other in inputs.builds if build and other != build]
    words += [word for folder in others for word in literals("--without", folder)]
    return Command(tuple(words))


def _command(inputs: StageInputs, build: Merged | None) -> tuple[Step, ...]:
    settings = inputs.settings
    command = settings.recipe.test.command
    # No bake has a GPU: `wheel-bakery gpu-test` runs the command.
    if not command or settings.recipe.test.gpu:
        return ()
    files = settings.recipe.test.files
    copies = tuple(Command(literals("cp", "-r", f"/src/{item}", "/work/")) for item in files)
    into = Script("mkdir -p /work && cd /work")
    run = Command(literals("sh", "-c", command))
    mounts = (source_mount(inputs, writable=False),) if files else ()
    # The shell itself replaces ${NAME} here; all that it needs is the variable.
    fixed = build.args if build else {}
    declared = [step for step in declarations((Run((Script(command),)),)) if step.name not in fixed]
    return (
        *declared,
        Env((VENV_PATH, *((name, literal(value)) for name, value in fixed.items()))),
        with_secrets(inputs, Phase.TEST, Run((into, *copies, run), mounts, network=settings.recipe.test.network)),
    )
