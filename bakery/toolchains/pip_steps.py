"""Steps that resolve and install packages of the index, and their mounts.

Each set of packages has a place: its name in ``bakery.lock``. One stage resolves it and another one installs it, so the
same packages give the same layer, with or without a lock. A stage between them, without network and secrets, builds the
packages without a wheel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bakery.plan.dockerfile import Command, Mount, Resolves, Role, Run, Script, Stage
from bakery.plan.values import Value, literal
from bakery.toolchains import program_mounts

CERTIFICATES = (Mount("secret", "", id="ca-bundle"),)
"""The company's CA bundle, which the program ``net`` uses if it exists."""

INDEX = (*CERTIFICATES, Mount("secret", "", id="pip-conf"))
"""The mounts of a step that uses the package index: pip's configuration may contain the password of the index.

Such a step runs no code of the project or of a package: Python starts with ``-I -S``, and pip with `pip_alone.py`.
"""

PIP_CACHE = Mount("cache", "/root/.cache/pip", id="bakery-pip", sharing="shared")
"""pip's download cache, for steps that run no code of packages."""

NETWORK = (*INDEX, PIP_CACHE)
"""All mounts of a step that downloads from the package index with pip."""

TOOLS = "/opt/bakery"
"""The virtual environment of Bakery's tools in every builder. Its pip also works for other interpreters."""

PIP = "/opt/pip"
"""The folder where an install step mounts the pip of a clean environment of another stage."""

NET = program_mounts.path("net")
"""Runs a command with the certificates and the package index of the secrets."""

FRAMEWORK_INDEX = "FRAMEWORK_INDEX"
"""The variable that tells `PROGRAM` one more index."""

PROGRAM = program_mounts.path("packages")
"""Resolves packages of the index, builds and installs them."""

RESOLVED = "/requirements"
"""The folder with the results of a stage of requirements."""

SOURCES, BUILT = "/sources", "/built"
"""The folders of packages without a wheel, and of the wheels that were built from them."""

STAGE = "lock"
"""The stage, or the build context that replaces it, with one folder for each place."""

LOCKED = "/lock"

WITH_TOOLS = (literal(f"{TOOLS}/bin/python"),)
WITH_PIP = (literal(f"{PIP}/bin/python"),)
"""The words that start the Python of `TOOLS`, and that of `PIP`."""


def with_python(version: Value) -> tuple[Value, ...]:
    """Return the words that start a Python version of the base."""
    return (literal("find-python"), version)


def with_environment(folder: str) -> tuple[Value, ...]:
    """Return the words that start the Python of an environment, which must have no packages yet."""
    return (literal(f"{folder}/bin/python"),)


def make_venv(folder: str, version: str = "") -> Script:
    """Return the command that makes a virtual environment with pip alone, without running code of packages."""
    python = f'{program_mounts.path("find-python")} "{version}"'
    return Script(f"{python} -I -S {program_mounts.path('make_venv.py')} {folder}")


def lock_mount(place: str) -> Mount:
    """Return the mount of the locked packages of a place; the folder is empty without a lock."""
    return Mount("bind", LOCKED, source=f"{LOCKED}/{place}", from_=STAGE)


def pip_mount(stage: str, environment: str) -> Mount:
    """Return the mount of an environment of another stage, for its pip."""
    return Mount("bind", PIP, source=environment, from_=stage)


def alone(by: Sequence[Value], program: str, *words: Value) -> Command:
    """Return the command that runs a Python program with network and without site-packages."""
    return Command((literal(NET), *by, *map(literal, ("-I", "-S", program)), *words))


def resolve(  # noqa: PLR0913
    place: str,
    words: Sequence[Value],
    *before: Command | Script,
    by: Sequence[Value] = WITH_TOOLS,
    options: Sequence[str] = (),
    direct: Sequence[str] = (),
    of_base: Sequence[str] = (),
    beside: str = "",
    layer: Sequence[str] = (),
    mounts: Iterable[Mount] = (),
) -> Run:
    """Return the step that resolves the requirements ``words``.

    Args:
        by: the words that start the Python of the packages.
        options: options of ``pip install``.
        direct: distributions that may come from a URL.
        of_base: distributions that are not resolved where the base has their program.
        beside: the place whose packages are there already; wheels of the others are downloaded.
        layer: patterns of the distributions that are also listed as those of the framework, for a layer of their own.
    """
    lists = {"direct": direct, "of-base": of_base, "beside": [beside] if beside else [], "layer": layer}
    own_options = [f"--{name}={','.join(items)}" for name, items in lists.items() if items]
    pip_options = tuple(map(literal, options))
    own_words = map(literal, ("resolve", place, *own_options))
    command = alone(by, PROGRAM, *own_words, *pip_options, literal("--"), *words)
    resolves = Resolves(place, (*pip_options, *words), tuple(direct))
    return Run((*before, command), (lock_mount(place), *NETWORK, *mounts), Role.PACKAGES, resolves=resolves)


def build_stage(place: str, stage: str, base: str, says: str, by: Sequence[Value]) -> Stage:
    """Return the stage that builds the packages without a wheel of ``stage``, without network and secrets.

    It runs code of packages, so only its wheels are used. ``base`` has the tools that builds need.
    """
    building = Command((*by, *map(literal, ("-I", "-S", PROGRAM, "build", place))))
    sources = Mount("bind", SOURCES, source=SOURCES, from_=stage)
    run = Run((building,), (sources,), Role.PACKAGES, network=False)
    return Stage(f"{stage}-built", literal(base), (run,), role=Role.PACKAGES, says=says)


def install(place: str, environment: str, by: Sequence[Value] = WITH_TOOLS) -> Command:
    """Return the command that installs the packages of a place; its step needs the mounts of `resolved`."""
    return alone(by, PROGRAM, *map(literal, ("install", place, environment)))


def unpack(place: str, folder: str) -> Command:
    """Return the command that unpacks the packages of a place into a folder; its step needs the mounts of `resolved`."""
    return alone(WITH_TOOLS, PROGRAM, *map(literal, ("unpack", place, folder)))


def resolved(stage: str, *places: str) -> tuple[Mount, ...]:
    """Return the mounts of the requirements that ``stage`` resolved."""
    files = (f"{RESOLVED}/{place}.txt" for place in places)
    return tuple(Mount("bind", file, source=file, from_=stage) for file in files)


def built(stage: str, place: str) -> Mount:
    """Return the mount of the wheels of `build_stage`."""
    folder = f"{BUILT}/{place}"
    return Mount("bind", folder, source=folder, from_=f"{stage}-built")


def install_step(
    place: str,
    stage: str,
    environment: str,
    by: Sequence[Value] = WITH_PIP,
    mounts: Iterable[Mount] = (),
) -> Run:
    """Return the step that installs the packages of ``stage`` into an environment."""
    return Run((install(place, environment, by=by),), (*resolved(stage, place), *mounts, *NETWORK), Role.PACKAGES)


def lock_stage(stages: Iterable[Stage]) -> Stage:
    """Return the stage that a build without a lock uses: an empty folder for each place."""
    folders = (f"{LOCKED}/{place}" for place in locked_places(stages))
    return Stage(
        STAGE,
        literal("root"),
        (Run((Command(tuple(map(literal, ("mkdir", "-p", *folders)))),), network=False),),
        "Nothing is locked. `wheel-bakery lock` writes a lock; a locked build gets it as a context of this name.",
    )


def locked_places(stages: Iterable[Stage]) -> tuple[str, ...]:
    """Return the places whose locked packages steps mount."""
    mounts = (mount for stage in stages for step in stage.steps if isinstance(step, Run) for mount in step.mounts)
    return tuple(
        dict.fromkeys(
            mount.source.removeprefix(f"{LOCKED}/") for mount in mounts if mount.source.startswith(f"{LOCKED}/")
        )
    )
