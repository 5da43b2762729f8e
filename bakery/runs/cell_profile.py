"""When the steps and compilers of a cell ran: written after each bake, read by ``profile``.

The times of commands are what ``count-ccache`` prints in a step that runs the project's code: they are checked and
bounded here, and nothing but ``profile`` uses them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bakery.core.errors import OutputError, UsageError
from bakery.core.inside import Inside
from bakery.runs.buildx.progress import Step
from bakery.runs.buildx.rawjson import TIMED, Role
from bakery.runs.run_folders import kept_runs
from wheel_audit.plain_files import read_plain

FOLDER = "profiles"
_LARGEST = 16 << 20
_SLACK_S = 2.0
"""A command may seem to run so many seconds before or after its step."""

_COMMAND = re.compile(
    TIMED + r"(cores|compile|ninja|nvcc|missed) (\d{1,12}\.\d{3}) (\d{1,9}\.\d{3}) (\d{1,7}) (.{1,200})",
    re.ASCII | re.DOTALL,
)


_Seconds = Annotated[float, Field(ge=0, le=1e13)]
"""A time of at most 13 digits, as `_COMMAND` has it."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class StepTime(_Model):
    """A step of BuildKit; ``start`` in seconds since 1970, ``work``: what it does, in words."""

    title: str
    work: str = ""
    start: _Seconds
    seconds: _Seconds
    cached: bool


class Command(_Model):
    """A compiler in its slot (``kind`` compile), or a command of ninja, which includes waiting; ``mb``: its peak memory."""

    kind: str
    start: _Seconds
    seconds: _Seconds
    mb: int
    name: str

    @property
    def end(self) -> float:
        """When it ended."""
        return self.start + self.seconds


class Phase(_Model):
    """What nvcc did for an architecture, or for the host (empty), in all files together; ``seconds`` of all cores."""

    architecture: str
    name: str
    seconds: _Seconds


class CellProfile(_Model):
    """The times of one bake of a cell; ``cores`` is 0 if unknown. ``phases`` are those of nvcc.

    ``misses``: what the compiler cache did not have, and why: ``OBJECT: REASON``.
    """

    recipe: str
    cell: str
    cores: int = Field(ge=0, le=4096)
    steps: tuple[StepTime, ...]
    commands: tuple[Command, ...]
    phases: tuple[Phase, ...] = ()
    misses: tuple[str, ...] = ()


def save(run: Path, recipe: str, cell: str, steps: Iterable[Step]) -> None:
    """Write the profile of a bake to the folder of its run. A retry without times does not replace one with times.

    Raises OutputError if it cannot be written.
    """
    ran = [step for step in steps if step.label.role is Role.STEP and step.started is not None]
    cores, commands, phases, misses = 0, [], [], []
    for step in ran:
        for kind, start, seconds, mb, name in _commands(step):
            if kind == "cores":
                cores = min(int(name), 4096) if name.isdecimal() else 0
            elif kind == "missed":
                misses.append(name)
            elif kind == "nvcc":
                architecture, _, phase = name.partition(" ")
                phases.append({"architecture": architecture.strip("-"), "name": phase, "seconds": seconds})
            else:
                commands.append({"kind": kind, "start": start, "seconds": seconds, "mb": mb, "name": name})
    path = run / FOLDER / f"{cell}.json"
    times = [
        {
            "title": step.label.title,
            "work": step.work,
            "start": step.started,
            "seconds": step.seconds,
            "cached": step.cached,
        }
        for step in ran
    ]
    document = {
        "recipe": recipe,
        "cell": cell,
        "cores": cores,
        "steps": times,
        "commands": commands,
        "phases": phases,
        "misses": misses,
    }
    try:
        if commands or not ((old := read(run, cell)) and old.commands):
            Inside(run).write(f"{FOLDER}/{cell}.json", json.dumps(document).encode())
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error}", hint="free some disk space") from error


def _commands(step: Step) -> Iterable[tuple[str, float, float, int, str]]:
    """Return the times that a step printed, without those that it cannot have."""
    first, last = (step.started or 0) - _SLACK_S, (step.completed or 0) + _SLACK_S
    for line in step.output.timed:
        if match := _COMMAND.fullmatch(line):
            start, seconds = float(match[2]), float(match[3])
            if match[1] in ("cores", "nvcc", "missed") or (first <= start and start + seconds <= last):
                yield match[1], start, seconds, int(match[4]), match[5]


def find(state: Path, recipe: str, cell: str) -> tuple[CellProfile, Path, bool]:
    """Return the newest profile of a cell that has times of commands, its run, and whether a newer bake compiled nothing.

    Without any such profile, the newest one. Raises UsageError if no kept run baked the cell.
    """
    profiles = [(run, profile) for run in kept_runs(state) if (profile := read(run, cell)) and profile.recipe == recipe]
    if not profiles:
        raise UsageError(
            f"no kept run has times of {cell}", hint=f"bake it: wheel-bakery wheel --rebuild --only {shlex.quote(cell)}"
        )
    run, profile = next((item for item in profiles if item[1].commands), profiles[0])
    return profile, run, bool(profile.commands) and run != profiles[0][0]


def read(run: Path, cell: str) -> CellProfile | None:
    """Return the profile of a cell in the folder of a run; None if there is none that can be read."""
    try:
        return CellProfile.model_validate_json(read_plain(run / FOLDER / f"{cell}.json", _LARGEST))
    except (OSError, ValidationError):
        return None


def beside(run: Path, profile: CellProfile) -> list[CellProfile]:
    """Return the profiles of the other cells of the same run."""
    names = sorted(path.stem for path in (run / FOLDER).glob("*.json"))[:256]
    others = (read(run, name) for name in names if name != profile.cell)
    return [other for other in others if other and other.recipe == profile.recipe]
