"""The inputs of stages, and the steps that several stages share."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bakery.core.errors import PlanError
from bakery.core.names import TARGET_ARCH, WHEEL_PYTHON, size_mb
from bakery.core.target_kinds import CACHE_SCOPE, CARRIED, CARRIED_AT, CARRY, Phase
from bakery.plan.build_facts import JobLimits
from bakery.plan.cells import Merged
from bakery.plan.delivery import Secret
from bakery.plan.dockerfile import Arg, Command, Copy, Mount, Role, Run, Script, Stage, Step, Workdir
from bakery.plan.values import Ref, Value, literal
from bakery.recipe.models import Builder, Native, Recipe
from bakery.resolve.references import declarations, parse, parse_table
from bakery.resolve.settings import Settings
from bakery.toolchains import pip_steps, program_mounts
from bakery.toolchains.bases.base import Base, Request
from bakery.toolchains.facts import sccache
from bakery.toolchains.pip_steps import CERTIFICATES, NET
from bakery.toolchains.toolkits.base import Toolkit

VENV = "/opt/venv"
VENV_PYTHON = f"{VENV}/bin/python"
VENV_PATH = ("PATH", (f"{VENV}/bin:", Ref("PATH")))
"""Puts programs of the environment first on PATH."""

COMPILER_FLAGS = ("CFLAGS", "CXXFLAGS")
"""The variables with flags for the compilers of C and C++."""

VENV_COMMAND = pip_steps.make_venv(VENV, "${PYTHON_VERSION}")
"""Makes the virtual environment of PYTHON_VERSION."""

SCOPE_STAGE = "cache-scope"
SCOPE = Mount("bind", f"/run/{SCOPE_STAGE}", from_=SCOPE_STAGE)
"""The mount that makes the scope a part of a step's cache key.

A step that used the objects of one project is no cache hit in another. BuildKit also merges equal steps of builds that run
at the same time, and a layer cache then gets what they started from in *all* of these builds. Steps that take something
from layers with the project's source or compiled files, which may be the same text in any project, have the scope, too.
"""

CCACHE = Mount("cache", "/var/cache/ccache", id="bakery-ccache-${TARGETARCH}", sharing="shared")
"""ccache's objects; needs the build argument TARGETARCH."""

COMPILER_CACHE = (CCACHE, SCOPE)
"""The mounts of a step that uses ccache."""

COMPILERS = (*COMPILER_CACHE, Mount("cache", "/var/cache/slots", id="bakery-slots", sharing="shared"))
"""The mounts of a step that runs compilers behind ccache, which share the slots of ``slot.py``."""

SCCACHE = f"{pip_steps.TOOLS}/bin/sccache"
"""sccache, where the tools include it."""

_FRAMEWORK = "framework"
"""The place of the framework's own packages in a stage of requirements."""

_PACKED, _MADE = "/packed", "/packing/made"

_SPECIAL = frozenset("*?[]\\$\"',")


@dataclass(frozen=True, slots=True)
class StageInputs:
    """The inputs of all stages.

    Attributes:
        toolkits: the CUDA toolkits of the recipe, one for each CUDA major.
        folder: the recipe's folder in the build context.
        shared: the wheel of one cell serves other cells.
        native_python: the Python whose base runs the native step; empty for a recipe without one.
        builds: those of a native step that is built several times for one wheel; empty for one that is built once.
    """

    settings: Settings
    base: Base
    request: Request
    toolkits: tuple[Toolkit, ...]
    folder: str
    shared: bool = False
    native_python: str = ""
    secrets: tuple[Secret, ...] = ()
    builds: tuple[Merged, ...] = ()

    @property
    def recipe(self) -> Recipe:
        """The recipe, with what the environment and the command line set."""
        return self.settings.recipe

    @property
    def package(self) -> str:
        """The folder of the Python package in build steps, whose source is in /src."""
        return posixpath.normpath(f"/src/{self.recipe.source.subdirectory or ''}")

    @property
    def crosses(self) -> bool:
        """Whether the build platform compiles for other platforms."""
        return self.settings.recipe.builder.cross

    @property
    def python(self) -> str:
        """The variable with the Python that builds the wheel."""
        return WHEEL_PYTHON if self.shared else "PYTHON_VERSION"


@dataclass(frozen=True, slots=True)
class Turn:
    """How a step runs that may ask for a git repository: words before its command, the mount of the source, other mounts."""

    words: tuple[Value, ...]
    source: Mount
    mounts: tuple[Mount, ...] = ()


def literals(*words: str) -> tuple[Value, ...]:
    """Return words without references."""
    return tuple(literal(word) for word in words)


def install_packages(*packages: str, crosses: bool = False) -> Run:
    """Return the step that installs system packages; if it crosses, libraries for the wheel's platform."""
    words = (NET, *(("cross-tools",) if crosses else ()), "install-packages", *packages)
    return Run((Command(literals(*words)),), CERTIFICATES, Role.SYSTEM)


def scope_stage() -> Stage:
    """Return the stage that names the scope of the project."""
    comment = (
        "BuildKit puts this before the ids of cache mounts; a step that mounts it is not another project's. "
        f"Separate projects with --set '*.args.{CACHE_SCOPE}=NAME'."
    )
    steps = (Arg(CACHE_SCOPE), Workdir(f"/{SCOPE_STAGE}-${{{CACHE_SCOPE}}}"))
    return Stage(SCOPE_STAGE, literal("scratch"), steps, comment)


def carry_stages(inputs: StageInputs) -> tuple[Stage, ...]:
    """Return the stages that import and export the compiler cache, because no layer contains a cache mount."""
    if not inputs.recipe.builder.compiler_cache:
        return ()
    about = "No layer holds a cache mount: this packs it, or fills it from a context named carried. Another CARRIED_AT repeats it."
    command = Command(literals(program_mounts.path("carry-ccache"), CCACHE.target, _PACKED, _MADE))
    return (
        Stage(CARRIED, literal("scratch"), comment=about),
        Stage(
            CARRY,
            literal("builder"),
            (
                Arg(TARGET_ARCH),
                Arg(CARRIED_AT),
                Run((command,), (*COMPILER_CACHE, Mount("bind", _PACKED, from_=CARRIED)), Role.CACHE, network=False),
            ),
            "",
            Role.CACHE,
            "move the compiler cache",
        ),
        Stage(f"{inputs.recipe.name}-compiler-cache", literal("scratch"), (Copy((f"{_MADE}/",), "/", CARRY),)),
    )


def toolkit_stage(inputs: StageInputs) -> str:
    """Return the stage whose compilers builders use."""
    return "toolkit" if inputs.toolkits or inputs.crosses else "base"


def source_mount(inputs: StageInputs, *, writable: bool, target: str = "/src") -> Mount:
    """Return the mount of the project's source; what a step writes there is dropped."""
    if inputs.recipe.source.path:
        return Mount("bind", target, source=folder(inputs), writable=writable)
    return Mount("bind", target, source="/src", from_="source", writable=writable)


def with_secrets(inputs: StageInputs, phase: Phase, run: Run) -> Run:
    """Return a step that also gets the secrets of its phase, and fails if one is missing.

    Commands that install packages are also told the framework's index.
    """
    # ``required`` is not enough: for an environment variable that is not set, buildx passes an empty secret.
    secrets = [item for item in inputs.secrets if phase in item.phases]
    mounts = (Mount("secret", "", id=item.name, env=item.variable, required=True) for item in secrets)
    tests = (
        (item.name, f'-n "${item.variable}"' if item.variable else f"-s /run/secrets/{item.name}") for item in secrets
    )
    checks = (
        Script(f"{{ test {test} || {{ echo 'bakery: no secret {name}' >&2; exit 1; }}; }}") for name, test in tests
    )
    commands = run.commands
    if phase == Phase.REQUIREMENTS and (index := inputs.recipe.builder.framework_index):
        told = ((pip_steps.FRAMEWORK_INDEX, parse(index)),)
        commands = tuple(
            replace(item, environment=(*item.environment, *told))
            if isinstance(item, Command) and item.words[0] == literal(NET)
            else item
            for item in commands
        )
    return replace(run, commands=(*checks, *commands), mounts=(*run.mounts, *mounts))


def remove_programs(inputs: StageInputs) -> tuple[Script, ...]:
    """Return the commands that remove Bakery's programs from the source, if it is the whole build context."""
    if not inputs.recipe.source.path or folder(inputs) != ".":
        return ()
    inside, parent = f"/src/{program_mounts.CONTEXT_FOLDER}", "/src/dockerfiles"
    return (Script(f"rm -rf {inside}"), Script(f"{{ rmdir {parent} 2>/dev/null || true; }}"))


def network_words(*, has_network: bool) -> str:
    """Return the words for a stage's comment about the network of its commands."""
    return "with the network, as the recipe asks" if has_network else "without network"


def folder(inputs: StageInputs) -> str:
    """Return the source's folder in the build context; PlanError if a Dockerfile cannot name it."""
    # Mounts and COPY read some characters as a pattern, a list or a variable.
    pieces = [piece for text in (inputs.folder, inputs.recipe.source.path or "") for piece in text.split("/")]
    path = "/".join(piece for piece in pieces if piece not in ("", ".")) or "."
    # BuildKit reads a mount's options byte by byte.
    special = sorted({char for char in path if char in _SPECIAL or not char.isascii()})
    if special:
        raise PlanError(
            f"source folder {path!r}: Dockerfiles cannot name {' '.join(special)}", hint="rename the folder"
        )
    return path


def compiler_prefix(settings: Settings) -> tuple[Value, ...]:
    """Return the words before a command that compiles: cross compilers, ccache, and the limit of parallel jobs."""
    builder = settings.recipe.builder
    names = (*["with-cross"] * bool(builder.cross), *["with-ccache"] * bool(builder.compiler_cache))
    words = job_limits(builder).words
    limits = (program_mounts.path(words[0]), *words[1:]) if words else ()
    return literals(*map(program_mounts.path, names), *limits)


def compile_step(  # noqa: PLR0913
    inputs: StageInputs,
    phase: Phase,
    table: Builder | Native,
    turn: Turn,
    words: Sequence[Value],
    before: Sequence[Command],
    mounts: Sequence[Mount] = (),
    environment: Sequence[tuple[str, Value]] = (),
) -> Run:
    """Return the step that runs ``words`` to compile the source in /src; what it writes there is dropped.

    ``table`` is the table of the recipe with its ``environment`` and ``network``. ``turn`` comes from
    `bakery.resolve.asking`; ``environment`` is that of Bakery's own.
    """
    settings = inputs.settings
    ccache_env: tuple[tuple[str, Value], ...] = ()
    ccache_report: tuple[Command, ...] = ()
    if settings.recipe.builder.compiler_cache:
        ccache_report = (Command(literals(program_mounts.path("count-ccache"))),)
        mounts = (*mounts, *COMPILERS)
        if inputs.toolkits:
            # torch calls nvcc by its path, unless this names another program.
            ccache_env = (("PYTORCH_NVCC", literal(program_mounts.path("nvcc-ccache"))),)
            if settings.recipe.builder.compiler_cache == "sccache":
                ccache_env = (*ccache_env, ("CMAKE_CUDA_COMPILER_LAUNCHER", literal(SCCACHE)))
    # What the recipe sets replaces Bakery's own.
    variables = dict((*ccache_env, *environment, *parse_table(table.environment)))
    if flags := inputs.base.compiler_flags:
        # The compiler takes the last one of such options, so the recipe's win.
        variables |= {name: (flags, " ", *variables[name]) for name in COMPILER_FLAGS if variables.get(name)}
    if mode := settings.recipe.builder.device_compression:
        # nvcc takes the last one of an option, so the key wins over a flag that the environment has, too.
        theirs = variables.get("NVCC_APPEND_FLAGS")
        variables["NVCC_APPEND_FLAGS"] = (*((*theirs, " ") if theirs else ()), f"--compress-mode={mode}")
    command = Command((*turn.words, *compiler_prefix(settings), *words), tuple(variables.items()))
    first: tuple[Command | Script, ...] = (Command(literals("umask", "022")), *remove_programs(inputs), *before)
    commands = (*first, command, *ccache_report)
    run_mounts = tuple(dict.fromkeys((turn.source, *turn.mounts, *mounts)))
    return with_secrets(inputs, phase, Run(commands, run_mounts, Role.COMPILE, network=table.network))


def ccache_args(settings: Settings) -> tuple[Arg, ...]:
    """Return the build arguments that `COMPILER_CACHE` needs; none for a recipe without a compiler cache."""
    return (Arg(TARGET_ARCH),) if settings.recipe.builder.compiler_cache else ()


def uses_sccache(inputs: StageInputs) -> bool:
    """Return whether the tools include sccache. Raises PlanError if the recipe asks for it where it has no wheel."""
    wanted = inputs.recipe.builder.compiler_cache
    musl = any("musllinux" in part for part in (inputs.base.name, *inputs.request.image) if isinstance(part, str))
    runs = {*inputs.request.platforms} <= set(sccache()[0].platforms) and not musl
    if wanted == "sccache" and not runs:
        raise PlanError(
            "builder.compiler-cache: sccache has no wheel for this platform or base",
            hint='set compiler-cache = "ccache", or build for another platform in a recipe of its own',
        )
    return wanted == "sccache" or (wanted is True and bool(inputs.recipe.builder.rust) and runs)


def compilers_take_slots(inputs: StageInputs) -> bool:
    """Return whether all compilers take slots: not an nvcc that is called by its path. rustc's memory is not known."""
    settings = inputs.settings
    return settings.recipe.builder.compiler_cache and not (inputs.toolkits or settings.recipe.builder.rust)


def job_limits(builder: Builder) -> JobLimits:
    """Return the limits of parallel compilers."""
    return JobLimits(size_mb(builder.job_memory) * 10**6 if builder.job_memory else 0, builder.jobs or 0)


def insert_before_use(stages: Sequence[Stage], stage: Stage) -> tuple[Stage, ...]:
    """Insert a stage before the first one that mounts it or begins with it, since BuildKit knows no later stage."""
    uses = (
        item.base == literal(stage.name)
        or any(mount.from_ == stage.name for step in item.steps if isinstance(step, Run) for mount in step.mounts)
        for item in stages
    )
    index = next((index for index, is_use in enumerate(uses) if is_use), len(stages))
    return (*stages[:index], stage, *stages[index:])


def install_missing(commands: tuple[Command, ...]) -> tuple[Step, ...]:
    """Return the step that installs what a base lacks; none without commands."""
    return (Run(commands, CERTIFICATES, Role.SYSTEM),) if commands else ()


def python_commands(inputs: StageInputs) -> tuple[Command, ...]:
    """Return the commands that install the cell's Python; none if the base has it."""
    return inputs.base.for_python((Ref("PYTHON_VERSION"),))


def make_environment(inputs: StageInputs) -> Run:
    """Return the step that makes `VENV` with the cell's Python."""
    commands = python_commands(inputs)
    return Run((*commands, VENV_COMMAND), CERTIFICATES if commands else (), Role.SYSTEM)


def with_args(stage: Stage, *args: Arg) -> Stage:
    """Return a stage that declares ``args`` and every build argument that its steps refer to."""
    return replace(stage, steps=(*args, *declarations(stage.steps), *stage.steps))


def layer_of(inputs: StageInputs) -> tuple[str, ...]:
    """Return the patterns of the distributions that get a layer of their own; none without a framework that has such ones."""
    return inputs.settings.framework.layer if inputs.settings.framework else ()


def framework_layer(
    inputs: StageInputs, requirements: str, name: str, base: str, *mounts: Mount
) -> tuple[tuple[Stage, ...], tuple[Step, ...]]:
    """Return the stage ``name`` with the framework's own packages, of those that the stage ``requirements`` resolved, and the
    step that adds them to `VENV`. Nothing for a framework without a layer.

    The stage has nothing of the project, the toolkit or the test: with equal packages on an equal ``base`` it is one
    layer for all of them, and ``COPY --link`` makes one layer of it, too.
    """
    if not layer_of(inputs):
        return (), ()
    install = pip_steps.install_step(
        _FRAMEWORK, requirements, VENV, by=pip_steps.with_python((Ref("PYTHON_VERSION"),)), mounts=mounts
    )
    steps = (*install_missing(python_commands(inputs)), with_secrets(inputs, Phase.REQUIREMENTS, install))
    framework = inputs.recipe.builder.framework
    about = f"The packages of {framework} alone: one layer for all projects and toolkits."
    stage = with_args(Stage(name, literal(base), steps, about, Role.FRAMEWORK, f"install {framework}"))
    return (stage,), (Copy((f"{VENV}/",), f"{VENV}/", name),)


def environment_stages(
    inputs: StageInputs, place: str, stage: str, words: Sequence[Value], comment: str, *mounts: Mount
) -> tuple[tuple[Stage, ...], Run]:
    """Return the stages that resolve and build packages for `VENV` in a clean base, and the step that installs them.

    ``place`` is their name in a lock, ``stage`` the stage that resolves them, ``words`` the requirements, ``mounts`` the
    files in these. The step belongs into a stage that starts from the first of the stages.
    """
    direct = inputs.recipe.builder.allow_direct
    environment, says = (make_environment(inputs),), f"environment of the {place}"
    system = with_args(Stage(f"{place}-system", literal("runtime"), environment, role=Role.SYSTEM, says=says))
    by = pip_steps.with_environment(VENV)
    resolve = pip_steps.resolve(place, words, by=by, direct=direct, layer=layer_of(inputs), mounts=mounts)
    # Packages may replace the Python and pip of this environment.
    pip, built = pip_steps.pip_mount(stage, VENV), pip_steps.built(stage, place)
    install = pip_steps.install_step(place, stage, VENV, mounts=(pip, built))
    steps = (with_secrets(inputs, Phase.REQUIREMENTS, resolve),)
    resolving = Stage(
        stage, literal(system.name), steps, comment, Role.PACKAGES, f"resolve requirements of the {place}"
    )
    building = f"build requirements of the {place} that have no wheel"
    return (
        system,
        with_args(resolving),
        pip_steps.build_stage(place, stage, system.name, building, by=by),
    ), with_secrets(inputs, Phase.REQUIREMENTS, install)
