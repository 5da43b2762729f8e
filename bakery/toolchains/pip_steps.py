"""Steps that resolve packages of the index, and steps that install what was resolved; the mounts of both.

Each set of packages has a place: its name in ``bakery.lock``. One stage resolves it and another one installs it, so the
same packages give the same layer, with or without a lock. Between the two, a stage without network and secrets builds
the packages that have no wheel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bakery.plan.dockerfile import Command, Mount, Resolves, Run, Script, Stage
from bakery.plan.values import Value, literal
from bakery.toolchains import program_mounts

CERTIFICATES = (Mount("secret", "", id="ca-bundle"),)
"""The company's CA bundle, if the machine has one; the program ``net`` finds it."""

INDEX = (*CERTIFICATES, Mount("secret", "", id="pip-conf"))
"""What a step needs to ask the package index: also pip's configuration, which may hold the index's password.

Such a step runs no code of the project and none of a package: Python starts with ``-I -S``, and pip by `pip_alone.py`.
"""

PIP_CACHE = Mount("cache", "/root/.cache/pip", id="bakery-pip", sharing="shared")
"""pip's download cache. Steps that run code of packages do not get it."""

NETWORK = (*INDEX, PIP_CACHE)
"""All mounts of a step that downloads from the package index with pip."""

TOOLS = "/opt/bakery"
"""The virtual environment of bakery's own tools, in every builder; its pip acts for other interpreters, too."""

PIP = "/opt/pip"
"""Where an installing step mounts the pip of another stage, whose environment has nothing else."""

PROGRAM = program_mounts.path("packages")
"""Resolves packages of the index, builds and installs them."""

RESOLVED = "/requirements"
"""The folder with the results of a stage of requirements."""

SOURCES, BUILT = "/sources", "/built"
"""The folders of packages without a wheel, and of the wheels that were built from them."""

STAGE = "lock"
"""The stage, or the build context of that name in its place, with one folder for each place."""

LOCKED = "/lock"

WITH_TOOLS = (literal(f"{TOOLS}/bin/python"),)
WITH_PIP = (literal(f"{PIP}/bin/python"),)
"""The words that start Python: that of bakery's own tools, and that of `PIP`."""


def with_python(version: Value) -> tuple[Value, ...]:
    """Return the words that start the base's own Python of a version."""
    return (*map(literal, ("sh", "-c", 'exec "$(find-python "$0")" "$@"')), version)


def with_environment(folder: str) -> tuple[Value, ...]:
    """Return the words that start the Python of an environment, which must have no packages yet."""
    return (literal(f"{folder}/bin/python"),)


def make_venv(folder: str, version: str = "") -> Script:
    """Return the command that makes an empty virtual environment of the base's Python; no package's code runs."""
    python = f'find-python "{version}"' if version else "find-python"
    return Script(f'"$({python})" -I -S -m venv {folder}')


def lock_mount(place: str) -> Mount:
    """Return the mount of what is locked at a place: nothing, unless the build is given a lock."""
    return Mount("bind", LOCKED, source=f"{LOCKED}/{place}", from_=STAGE)


def pip_mount(stage: str, environment: str) -> Mount:
    """Return the mount of the pip in an environment of another stage."""
    return Mount("bind", PIP, source=environment, from_=stage)


def alone(by: Sequence[Value], program: str, *words: Value) -> Command:
    """Return the command that runs a program with the network, and without the packages of any environment."""
    return Command((literal("net"), *by, *map(literal, ("-I", "-S", program)), *words))


def resolve(
    place: str,
    words: Sequence[Value],
    *before: Command | Script,
    by: Sequence[Value] = WITH_TOOLS,
    options: Sequence[str] = (),
    direct: Sequence[str] = (),
    mounts: Iterable[Mount] = (),
) -> Run:
    """Return the step that resolves requirements.

    Args:
        place: what the set is called in a lock.
        words: the requirements.
        before: commands that come first.
        by: starts the Python that the packages are for.
        options: options of ``pip install``.
        direct: distributions that may come from an address.
        mounts: files that the words name, and what else the step is given.
    """
    direct_options, pip_options = allowing(direct), tuple(map(literal, options))
    command = alone(
        by, PROGRAM, *map(literal, ("resolve", place)), *direct_options, *pip_options, literal("--"), *words
    )
    resolves = Resolves(place, (*pip_options, *words), tuple(direct))
    return Run((*before, command), (lock_mount(place), *NETWORK, *mounts), resolves=resolves)


def allowing(direct: Sequence[str]) -> tuple[Value, ...]:
    """Return the option that allows distributions to come from an address."""
    return (literal(f"--direct={','.join(direct)}"),) if direct else ()


def build_stage(
    place: str, stage: str, base: str, by: Sequence[Value] = WITH_PIP, mounts: Iterable[Mount] = ()
) -> Stage:
    """Return the stage that builds what has no wheel, of what ``stage`` resolved: without network and secrets.

    Only wheels leave it: what runs in it is code of packages.

    Args:
        base: the stage with the tools that builds need.
        by: starts the Python that the packages are for.
    """
    folder = f"{SOURCES}/{place}"
    building = Script(
        f"mkdir -p {BUILT}/{place} && "
        f'if test -n "$(ls -A {folder})"; then {_text(by)} -I -S {PROGRAM} build {place}; fi'
    )
    sources = Mount("bind", folder, source=folder, from_=stage)
    return Stage(f"{stage}-built", literal(base), (Run((building,), (sources, *mounts), network=False),))


def _text(words: Iterable[Value]) -> str:
    return " ".join(part for word in words for part in word if isinstance(part, str))


def install(place: str, environment: str, *options: str, by: Sequence[Value] = WITH_TOOLS) -> Command:
    """Return the command that installs what was resolved into an environment; its step needs `resolved`."""
    return alone(by, PROGRAM, *map(literal, ("install", place, environment, *options)))


def resolved(stage: str, *places: str) -> tuple[Mount, ...]:
    """Return the mounts of what the stage of requirements ``stage`` found for places."""
    files = (f"{RESOLVED}/{place}.txt" for place in places)
    return tuple(Mount("bind", file, source=file, from_=stage) for file in files)


def built(stage: str, place: str) -> Mount:
    """Return the mount of the wheels that were built of what ``stage`` resolved."""
    folder = f"{BUILT}/{place}"
    return Mount("bind", folder, source=folder, from_=f"{stage}-built")


def install_step(
    place: str,
    stage: str,
    environment: str,
    *before: Command | Script,
    by: Sequence[Value] = WITH_PIP,
    mounts: Iterable[Mount] = (),
) -> Run:
    """Return the step that runs commands and then installs what ``stage`` resolved for a place.

    Args:
        environment: where to; nothing of it is imported.
        by: starts its Python.
        mounts: what else the step is given.
    """
    return Run((*before, install(place, environment, by=by)), (*resolved(stage, place), *mounts, *NETWORK))


def lock_stage(stages: Iterable[Stage]) -> Stage:
    """Return the stage that stands for a lock where the build is given none: an empty folder for each place."""
    folders = " ".join(f"{LOCKED}/{place}" for place in locked_places(stages))
    return Stage(
        STAGE,
        literal("root"),
        (Run((Script(f"mkdir -p {folders}"),), network=False),),
        "Nothing is locked. `wheel-bakery lock` writes a lock; a locked build gets it as a context of this name.",
    )


def locked_places(stages: Iterable[Stage]) -> tuple[str, ...]:
    """Return the places that steps look up in a lock."""
    mounts = (mount for stage in stages for step in stage.steps if isinstance(step, Run) for mount in step.mounts)
    return tuple(dict.fromkeys(mount.source.removeprefix(f"{LOCKED}/") for mount in mounts if mount.from_ == STAGE))
