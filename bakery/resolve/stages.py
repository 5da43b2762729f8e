"""Settings → Dockerfile stages, in the order in which people read them.

The main ones; those that resolve packages, ask the project and carry files between them are left out::

    python-3.9 … python-3.14 ─ root ─ common ┬ base ┬ cuda-12, cuda-13 ─ toolkit ─ builder ─ compile ─ repair ─ NAME-wheel
                                             │      ├ project (build requirements) ┘  └ NAME-builder (dev)
                                             │      └ fetch ─ source (sdist)
                                             └ runtime ─ test-env ─ NAME-test

- Stages that do not depend on Python come before those that do, and a stage declares only the arguments it uses.
- ``project`` reduces the source to its list of build requirements: in one scope, the same list gives the same builder.
- ``backend-requires`` asks the build backend what else it requires: the same answer gives the same builder, too.
- ``compile`` has no network. It mounts the source, discards what the build writes there, and mounts a ccache.
- Packages are resolved to hashes in one stage (``…-requirements``) and installed in another, so the same packages give
  the same layer, with or without a lock.
- The test starts from a clean base and installs only the wheel, its requirements and those of the recipe's test.

With a native step or a stable-ABI wheel, there are up to three lines of stages on different root file systems
(`bakery.resolve.base_stages`): one compiles (prefix none), one packages (``wheel-``), one tests (``test-``).
"""

from __future__ import annotations

from dataclasses import replace

from bakery.core.names import TARGET_ARCH
from bakery.core.target_kinds import Phase
from bakery.plan.delivery import Naming
from bakery.plan.dockerfile import (
    Add,
    Arg,
    Cmd,
    Command,
    Copy,
    Env,
    Mount,
    RequirementsFile,
    Resolves,
    Role,
    Run,
    Script,
    Stage,
    Step,
    Workdir,
)
from bakery.plan.values import Ref, Value, literal
from bakery.resolve.asking import asking_stages, repository_stages, results
from bakery.resolve.base_stages import Lines, root_stages, stage_lines
from bakery.resolve.before_build import before_build, prepared_source
from bakery.resolve.materials_stages import material_stages
from bakery.resolve.naming import always_required, namings, required_texts, requires
from bakery.resolve.native import native_inputs, native_stages
from bakery.resolve.references import parse_all, parse_table, rename_arg
from bakery.resolve.rust import below_builder, cargo_environment, crates_mounts, read_project, rust_stages
from bakery.resolve.select_toolkits import components_of
from bakery.resolve.stage_inputs import (
    COMPILER_FLAGS,
    SCOPE,
    VENV,
    VENV_PATH,
    StageInputs,
    Turn,
    carry_stages,
    ccache_args,
    compile_step,
    folder,
    framework_layer,
    insert_before_use,
    install_missing,
    install_packages,
    layer_of,
    literals,
    make_environment,
    network_words,
    python_commands,
    remove_programs,
    scope_stage,
    source_mount,
    with_args,
    with_secrets,
)
from bakery.resolve.tool_image import image_stages
from bakery.resolve.wheel_test import FIRST, REQUIRES, list_mount, run_list, test_stages
from bakery.toolchains import pip_steps, program_mounts
from bakery.toolchains.pip_steps import CERTIFICATES, INDEX, NET
from bakery.toolchains.program_mounts import SHELL

LOCK = "/requirements.lock"
"""The packages of the build with their hashes, as information in the builder."""

SOURCE = "source"
"""The place of a lock with the source archive."""

_BUILD_FOLDER = ("SKBUILD_BUILD_DIR", literal("/tmp/build"))
"""Without it, scikit-build-core compiles in a folder of a random name, which gets into objects."""

_BUILD, _BACKEND = f"{REQUIRES}/build.txt", f"{REQUIRES}/backend.txt"
_FETCHED = "/fetched/src"
_BUILT = "/wheels/built"
_ASK = "backend-requires"
_PACKAGES, _SYSTEM = "requirements", "builder-system"


def stages(inputs: StageInputs) -> tuple[Stage, ...]:
    """Return all stages in order."""
    if inputs.recipe.image:
        return image_stages(inputs)
    lines = stage_lines(inputs)
    build_stages = (
        *root_stages(inputs, lines),
        *repository_stages(inputs),
        *_toolkit(inputs),
        *_source(inputs),
        *native_stages(inputs),
        _project(inputs),
        *rust_stages(inputs, lines),
        # A wheel that serves several Pythons is built by one of them.
        *(
            rename_arg(stage, "PYTHON_VERSION", inputs.python)
            for stage in (
                _requirements(inputs, lines),
                *_builder(inputs, lines),
                *before_build(inputs),
                *_compile(inputs),
                _repair(inputs),
            )
        ),
        Stage(
            f"{inputs.recipe.name}-wheel",
            literal("scratch"),
            (Copy(("/wheels/dist/",), "/", "repair"),),
            says="wheel",
        ),
        *test_stages(inputs, lines),
        _dev(inputs),
    )
    materials = material_stages(inputs, lines, build_stages)
    all_stages = (*build_stages, *materials, *carry_stages(inputs))
    for stage in (pip_steps.lock_stage(all_stages), scope_stage()):
        all_stages = insert_before_use(all_stages, stage)
    return all_stages


def _toolkit(inputs: StageInputs) -> tuple[Stage, ...]:
    if not inputs.toolkits:
        return (_cross_tools(),) if inputs.crosses else ()
    components = components_of(inputs.settings)
    # Toolkits share stages: equal ones are written once.
    toolkit_stages = tuple(dict.fromkeys(item for toolkit in inputs.toolkits for item in toolkit.stage(components)))
    if toolkit_stages[-1].name == "toolkit":
        return toolkit_stages
    release, says = ("cuda-", Ref("CUDA_VERSION%%.*")), "toolkit CUDA"
    return (
        *toolkit_stages,
        Stage("toolkit", release, comment="The toolkit that has this release.", role=Role.CUDA, says=says),
    )


def _cross_tools() -> Stage:
    """Return the stage with Debian's compilers, C++ library and Python headers for the wheel's platform.

    Where both platforms are the same, its step does nothing, so one Dockerfile serves native and crossed cells.
    """
    run = Run((Command((*literals(NET, "cross-tools", "for"), (Ref(TARGET_ARCH),))),), CERTIFICATES, Role.SYSTEM)
    comment = "Compilers for the wheel's platform, where it is another one."
    return Stage("toolkit", literal("base"), (Arg(TARGET_ARCH), run), comment, Role.SYSTEM, "cross compilers")


def _source(inputs: StageInputs) -> tuple[Stage, ...]:
    git, sdist = inputs.recipe.source.git, inputs.recipe.source.sdist
    about, says = "The project's source.", "project's source"
    if git:
        # BuildKit takes an https URL for a repository only when it ends in .git.
        suffix = "" if git.endswith(".git") or not git.startswith("http") else ".git"
        address = f"{git}{suffix}#{inputs.recipe.source.ref}"
        return (Stage("source", literal("scratch"), (Add(literal(address), "/src"),), about, says=says),)
    if sdist:
        fetch = pip_steps.alone(pip_steps.WITH_TOOLS, pip_steps.PROGRAM, *literals("fetch", sdist, _FETCHED))
        fetching = Run(
            (fetch,), (pip_steps.lock_mount(SOURCE), *INDEX), Role.PACKAGES, resolves=Resolves(SOURCE, literals(sdist))
        )
        steps = (with_secrets(inputs, Phase.FETCH, fetching),)
        return (
            Stage("fetch", literal("base"), steps, about, Role.PACKAGES, "fetch the source"),
            Stage("source", literal("scratch"), (Copy((_FETCHED,), "/src", "fetch"),), says=says),
        )
    return ()


def _project(inputs: StageInputs) -> Stage:
    ours = tuple(sorted(always_required(required_texts(inputs.settings))))
    extras = [build.extra for build in inputs.builds if build.extra]
    words = (inputs.package, REQUIRES, *(f"--extra={extra}" for extra in extras), *ours)
    listing: tuple[Command | Script, ...] = (
        Command(literals(program_mounts.path("requires.py"), *words)),
        *read_project(inputs),
    )
    lists = (
        RequirementsFile(_BUILD, "build"),
        RequirementsFile(run_list(), "run", ours),
        *(RequirementsFile(run_list(extra), "run", extra=extra) for extra in extras),
    )
    return Stage(
        "project",
        literal("base"),
        (Run(listing, (source_mount(inputs, writable=False),), Role.SOURCE, network=False, lists=lists),),
        "What the project needs to be built, and to run: sources with the same list share a builder.",
        Role.SOURCE,
        "read the project's requirements",
    )


def _requirements(inputs: StageInputs, lines: Lines) -> Stage:
    settings = inputs.settings
    framework = settings.framework.build if settings.framework else ()
    frontend = settings.recipe.wheel.frontend.value
    words = (*literals("-r", _BUILD, frontend), *parse_all((*framework, *settings.recipe.builder.requirements)))
    resolve = pip_steps.resolve(
        "build",
        words,
        by=pip_steps.with_python((Ref("PYTHON_VERSION"),)),
        direct=settings.recipe.builder.allow_direct,
        layer=layer_of(inputs),
        mounts=(list_mount(_BUILD),),
    )
    # A step of its own: scripts of system packages see no credentials.
    steps = (*install_missing(python_commands(inputs)), with_secrets(inputs, Phase.REQUIREMENTS, resolve))
    about, says = (
        "The build backend and what the project lists for it, resolved and installed.",
        "resolve build requirements",
    )
    return with_args(Stage(_PACKAGES, literal(lines.packages.base), steps, about, Role.PACKAGES, says))


def _builder(inputs: StageInputs, lines: Lines) -> tuple[Stage, ...]:
    system, flags = inputs.recipe.builder.system_packages, inputs.base.compiler_flags
    system_steps: tuple[Step, ...] = (
        *((install_packages(*system, crosses=inputs.crosses),) if system else ()),
        make_environment(inputs),
        Env((("VIRTUAL_ENV", literal(VENV)), VENV_PATH, *((name, literal(flags)) for name in COMPILER_FLAGS if flags))),
    )
    by = pip_steps.with_environment(VENV)
    install = pip_steps.install_step("build", _PACKAGES, VENV, by=by, mounts=(pip_steps.built(_PACKAGES, "build"),))
    copy_lock = Command(literals("cp", f"{pip_steps.RESOLVED}/build.txt", LOCK))
    steps = (with_secrets(inputs, Phase.REQUIREMENTS, replace(install, commands=(*install.commands, copy_lock))),)
    layer, add_layer = framework_layer(inputs, _PACKAGES, "framework", lines.packages.base)
    system_says, building = "Python and system packages of the builder", "build requirements that have no wheel"
    says = "install build requirements"
    below = literal(below_builder(inputs, lines))
    return (
        *layer,
        with_args(Stage(_SYSTEM, below, system_steps, "", Role.SYSTEM, system_says)),
        pip_steps.build_stage("build", _PACKAGES, _SYSTEM, building, by=by),
        with_args(Stage("backend", literal(_SYSTEM), (*add_layer, *steps), "", Role.BACKEND, says)),
        *_of_backend(inputs),
    )


def _of_backend(inputs: StageInputs) -> tuple[Stage, ...]:
    """Return the stages that ask the build backend what else it requires (PEP 517), resolve it and install it.

    Its code runs in the first and the last, which have neither network nor secrets.
    """
    settings, place = inputs.settings, "backend"
    program = (*pip_steps.with_environment(VENV), *literals("-I", "-S", pip_steps.PROGRAM))
    config = [(f"{key}=", *value) for key, value in parse_table(settings.recipe.wheel.config_settings)]

    def asking(turn: Turn) -> Run:
        words = (*turn.words, *program, *literals("ask", inputs.package, VENV, _BACKEND), *config)
        ask = Command(words, parse_table(settings.recipe.builder.environment))
        commands: tuple[Command | Script, ...] = (Command(literals("umask", "022")), *remove_programs(inputs), ask)
        return Run(commands, (turn.source, *turn.mounts), Role.BACKEND, network=False)

    # One of the two answers is empty.
    more = results(inputs, _ASK, _BACKEND, f"{REQUIRES}/again.txt")
    resolve = pip_steps.resolve(
        place,
        literals("-r", _BACKEND, *(word for mount in more for word in ("-r", mount.target))),
        by=pip_steps.with_python((Ref("PYTHON_VERSION"),)),
        beside="build",
        direct=settings.recipe.builder.allow_direct,
        mounts=(list_mount(_BACKEND, _ASK), *more, SCOPE),
    )
    folder = f"{pip_steps.SOURCES}/{place}"
    requirements = Mount("bind", folder, source=folder, from_="backend-requirements")
    add = (Command((*program, *literals("add", place, VENV))), Script(f"cat {folder}/requirements.txt >> {LOCK}"))
    about, says = "What the build backend requires beside that (PEP 517).", "ask the build backend what it requires"
    more_says, resolving = "install requirements of the build backend", "resolve requirements of the build backend"
    more_steps = (with_secrets(inputs, Phase.REQUIREMENTS, resolve),)
    adding = (Run(add, (requirements, SCOPE), Role.PACKAGES, network=False),)
    return (
        *asking_stages(inputs, _ASK, "backend", _BACKEND, asking, about, role=Role.BACKEND, says=says, is_dated=False),
        with_args(
            Stage(
                "backend-requirements",
                literal(_PACKAGES),
                more_steps,
                "The builder: what this project's build needs, and nothing else.",
                Role.PACKAGES,
                resolving,
            )
        ),
        with_args(Stage("builder", literal("backend"), adding, "", Role.PACKAGES, more_says)),
    )


def _compile(inputs: StageInputs) -> tuple[Stage, ...]:
    settings = inputs.settings
    config = parse_table(settings.recipe.wheel.config_settings)
    if settings.recipe.wheel.frontend == "uv":
        front = literals("uv", "build", "--wheel", "--no-build-isolation", "--offline", "--out-dir", _BUILT)
        options = [word for key, value in config for word in (literal("-C"), (f"{key}=", *value))]
    else:
        front = literals("python", "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check")
        front += literals("--outdir", _BUILT)
        options = [(f"-C{key}=", *value) for key, value in config]
    native_mounts, copy_native = native_inputs(inputs)
    mounts = (*native_mounts, *crates_mounts(inputs))
    words = (*front, *options, literal(inputs.package))
    prepared = before_build(inputs)
    environment = (_BUILD_FOLDER, *cargo_environment(inputs))
    return asking_stages(
        inputs,
        "compile",
        prepared[0].name if prepared else "builder",
        _BUILT,
        lambda turn: compile_step(
            inputs,
            Phase.COMPILE,
            inputs.recipe.builder,
            turn,
            words,
            copy_native,
            mounts=mounts,
            environment=environment,
        ),
        f"Compiles {network_words(has_network=inputs.recipe.builder.network)}; what it writes in /src is dropped.",
        *ccache_args(settings),
        role=Role.COMPILE,
        says="compile",
        source=prepared_source() if prepared else None,
        given=_ASK,
    )


def _repair(inputs: StageInputs) -> Stage:
    settings, repair = inputs.settings, inputs.recipe.wheel.repair
    built = results(inputs, "compile", _BUILT, "/wheels/again")
    words: list[Value] = [
        *literals(program_mounts.path("finish.py"), _BUILT, "/wheels/dist"),
        *literals(*(f"--again={mount.target}" for mount in built)),
    ]
    if repair.enabled:
        words += literals("--plat", repair.plat)
        words += [word for item in repair.exclude for word in literals("--exclude", item)]
        words += literals("--strip") if repair.strip else ()
    else:
        words += literals("--no-repair")
    for requirement in requires(settings, inputs.builds):
        words += [literal("--require"), requirement]
    names = namings(settings)
    if names != (Naming(),):
        words += [word for naming in names for word in (literal("--name"), naming.words)]
    words += literals("--first", FIRST) if names[1:] else ()
    folders = literals("/wheels/dist", *([FIRST] if names[1:] else []))
    normalise = Command((literal(program_mounts.path("archive.py")), *folders))
    steps = (Run((Command(tuple(words)), normalise), built, Role.FINISH, network=False),)
    about = "Names the wheel, and adds the libraries that it needs; then the wheel and nothing else."
    return with_args(Stage("repair", literal("compile"), steps, about, Role.FINISH, "repair"), Arg("SOURCE_DATE_EPOCH"))


def _dev(inputs: StageInputs) -> Stage:
    source = "/src" if not inputs.recipe.source.path else folder(inputs)
    origin = "" if inputs.recipe.source.path else "source"
    return Stage(
        f"{inputs.recipe.name}-builder",
        literal("builder"),
        (SHELL, Copy((source,), "/workspace", origin), Workdir("/workspace"), Cmd(("bash",))),
        "For a shell: the build tools and the project.",
    )
