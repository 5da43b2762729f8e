"""Steps that resolve packages of the index, and steps that install what was resolved.

Each set of packages has a place, a name that it also has in ``bakery.lock``. What it comes to is found in a stage of
its own and installed in another: the same packages are the same layer, whether the index named them or a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bakery.plan import Command, Mount, Resolves, Run, Script, Stage, Value, Workdir, literal
from bakery.providers.network import NETWORK

TOOLS = "/opt/bakery"
"""The virtual environment of bakery's own tools, in every builder; its pip acts for other interpreters, too."""

PROGRAM = "/usr/local/bin/packages.py"
RESOLVED = "/requirements"
"""The folder that a stage of requirements leaves."""

STAGE = "lock"
"""The stage, or the build context of that name in its place, with one folder for each place."""

LOCKED = "/lock"


def lock_mount(place: str) -> Mount:
    """Return the mount of what is locked at a place: nothing, unless the build is given a lock."""
    return Mount("bind", LOCKED, source=f"/{place}", from_=STAGE)


def resolve(
    place: str,
    words: Sequence[Value],
    *before: Command | Script,
    by: str = f"{TOOLS}/bin/python",
    python: str = "",
    mounts: Iterable[Mount] = (),
) -> Run:
    """Return the step that resolves requirements.

    Args:
        place: what the set is called in a lock.
        words: the arguments of ``pip install``.
        before: commands that come first.
        by: the interpreter whose pip is asked.
        python: the interpreter that the packages are for; ``by`` itself where it is empty.
        mounts: files that the words name, and what else the step is given.
    """
    fixed = ("net", by, PROGRAM, "resolve", place, python or by)
    command = Command((*map(literal, fixed), *words))
    return Run((*before, command), (lock_mount(place), *NETWORK, *mounts), resolves=Resolves(place, tuple(words)))


def install(place: str, *options: str, by: str = f"{TOOLS}/bin/python", python: str = "") -> Command:
    """Return the command that installs what was resolved; its step needs `resolved`."""
    return Command(tuple(map(literal, ("net", by, PROGRAM, "install", place, python or by, *options))))


def resolved(stage: str, *places: str) -> tuple[Mount, ...]:
    """Return the mounts of what the stage of requirements ``stage`` found for places."""
    files = (f"{RESOLVED}/{place}.txt" for place in places)
    return tuple(Mount("bind", file, source=file, from_=stage) for file in files)


def install_step(
    place: str,
    stage: str,
    *before: Command | Script,
    by: str = f"{TOOLS}/bin/python",
    python: str = "",
    mounts: Iterable[Mount] = (),
) -> Run:
    """Return the step that runs commands and then installs what ``stage`` resolved for a place."""
    return Run((*before, install(place, by=by, python=python)), (*resolved(stage, place), *NETWORK, *mounts))


def lock_stage(stages: Iterable[Stage]) -> Stage:
    """Return the stage that stands for a lock where the build is given none: an empty folder for each place."""
    mounts = (mount for stage in stages for step in stage.steps if isinstance(step, Run) for mount in step.mounts)
    places = dict.fromkeys(mount.source for mount in mounts if mount.from_ == STAGE)
    comment = "Nothing is locked, unless the build is given a context of this name: `bakery lock` makes what is in it."
    return Stage(STAGE, literal("scratch"), tuple(map(Workdir, places)), comment)
