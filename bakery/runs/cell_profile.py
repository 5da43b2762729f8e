"""When the steps and compilers of a cell ran: written after each bake, read by ``profile``, which says what would help.

The times of commands are what ``count-ccache`` prints in a step that runs the project's code: they are checked and
bounded here, and nothing but ``profile`` uses them.
"""

from __future__ import annotations

import heapq
import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bakery.core.errors import OutputError, UsageError
from bakery.core.inside import Inside
from bakery.plan.build_facts import JobLimits
from bakery.plan.values import Json
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
    cores, commands, phases, misses = 0, list[Command](), list[Phase](), list[str]()
    for step in ran:
        for kind, start, seconds, mb, name in _commands(step):
            if kind == "cores":
                cores = min(int(name), 4096) if name.isdecimal() else 0
            elif kind == "missed":
                misses.append(name)
            elif kind == "nvcc":
                architecture, _, phase = name.partition(" ")
                phases.append(Phase.model_construct(architecture=architecture.strip("-"), name=phase, seconds=seconds))
            else:
                commands.append(Command.model_construct(kind=kind, start=start, seconds=seconds, mb=mb, name=name))
    times = tuple(
        StepTime.model_construct(
            title=step.label.title, work=step.work, start=step.started or 0.0, seconds=step.seconds, cached=step.cached
        )
        for step in ran
    )
    # What is read is checked.
    profile = CellProfile.model_construct(
        recipe=recipe,
        cell=cell,
        cores=cores,
        steps=times,
        commands=tuple(commands),
        phases=tuple(phases),
        misses=tuple(misses),
    )
    try:
        if commands or not ((old := read(run, cell)) and old.commands):
            Inside(run).write(f"{FOLDER}/{cell}.json", json.dumps(profile.model_dump()).encode())
    except OSError as error:
        raise OutputError(f"cannot write {run / FOLDER}: {error}", hint="free some disk space") from error


def _commands(step: Step) -> Iterable[tuple[str, float, float, int, str]]:
    """Return the times that a step printed, without those that it cannot have."""
    first, last = (step.started or 0) - _SLACK_S, (step.completed or 0) + _SLACK_S
    for line in step.output.timed:
        if match := _COMMAND.fullmatch(line):
            start, seconds = float(match[2]), float(match[3])
            if match[1] in ("cores", "nvcc", "missed") or (first <= start and start + seconds <= last):
                yield match[1], start, seconds, int(match[4]), match[5]


def find(state: Path, recipe: str, cell: str, reference: str = "") -> tuple[CellProfile, Path, bool]:
    """Return the newest profile of a cell that has times of commands, its run, and whether a newer bake compiled nothing.

    Without any such profile, the newest one. Raises UsageError if no kept run baked the cell.
    """
    profiles = [(run, profile) for run in kept_runs(state) if (profile := read(run, cell)) and profile.recipe == recipe]
    if not profiles:
        command = shlex.join(["wheel-bakery", "wheel", "--rebuild", "--only", cell, "--recipe", reference or recipe])
        raise UsageError(f"no kept run has times of {cell}", hint=f"bake it: {command}")
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


_DEFAULT_BYTES = 200 * 10**6
"""What slot.py expects of a file that it never compiled."""

_WORTH_S = 5.0
"""Seconds that advice should save."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How the commands of a cell used the cores.

    Attributes:
        commands: the compilers that ran, or ninja's commands if no compiler reported itself.
        wall: seconds from the start of the first to the end of the last.
        busy: the seconds of all of them together.
        idle: core seconds in which no command ran; 0 if the cores are unknown.
        alone: seconds in which one ran and the other cores had none, for each name.
        waited: command → seconds between ninja's start of it and its compiler's: the queue for a slot, and ccache.
    """

    commands: tuple[Command, ...]
    wall: float
    busy: float
    idle: float
    alone: dict[str, float]
    waited: dict[Command, float]


def summary(profile: CellProfile) -> Summary:
    """Return how the commands of a cell used the cores."""
    compilers = [command for command in profile.commands if command.kind == "compile"]
    commands = sorted(compilers or profile.commands, key=lambda command: -command.seconds)
    busy = 0.0
    alone: dict[str, float] = {}
    moments = [(command.start, 1, command) for command in commands] + [(item.end, 0, item) for item in commands]
    running: list[Command] = []
    last = 0.0
    for moment, begins, command in sorted(moments, key=lambda item: item[:2]):
        busy += (moment - last) * len(running)
        if len(running) == 1:
            alone[running[0].name] = alone.get(running[0].name, 0.0) + moment - last
        if begins:
            running.append(command)
        elif command in running:
            running.remove(command)
        last = moment
    length = max((item.end for item in commands), default=0.0) - min((item.start for item in commands), default=0.0)
    return Summary(tuple(commands), length, busy, max(0.0, profile.cores * length - busy), alone, _waited(profile))


def _waited(profile: CellProfile) -> dict[Command, float]:
    edges: dict[str, list[Command]] = {}
    for command in profile.commands:
        if command.kind == "ninja":
            edges.setdefault(PurePosixPath(command.name).stem, []).append(command)
    waited = {}
    for command in profile.commands:
        if command.kind != "compile":
            continue
        around = [
            edge
            for edge in edges.get(PurePosixPath(command.name).name, ())
            if edge.start - 0.1 <= command.start and command.end <= edge.end + 0.1
        ]
        if around:
            waited[command] = max(0.0, command.start - max(edge.start for edge in around))
    return waited


def device_seconds(profile: CellProfile) -> dict[str, float]:
    """Return ``sm_80`` → the seconds that nvcc took for this architecture, the slowest first; empty if it told none.

    cudafe++ and the host compiler also name one, but run once for all.
    """
    seconds: dict[str, float] = {}
    for phase in profile.phases:
        if phase.architecture and (phase.name in ("cicc", "ptxas") or phase.name.endswith("(preprocessing 1)")):
            name = f"sm_{phase.architecture.rpartition('_')[2]}"
            seconds[name] = seconds.get(name, 0.0) + phase.seconds
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def advice(profile: CellProfile, used: Summary, others: Sequence[CellProfile], limits: JobLimits) -> list[str]:
    """Return what would make the build of a cell faster; ``others`` are the cells of the same run."""
    lines = []
    name, seconds = max(used.alone.items(), key=lambda item: item[1], default=("", 0.0))
    if profile.cores > 1 and seconds > max(_WORTH_S, used.wall / 5):
        lines.append(
            f"{name} ran alone for {seconds:.0f} s of {used.wall:.0f} s: split the file, so that other cores have work"
        )
    largest = max(used.commands, key=lambda command: command.mb, default=None)
    if largest and largest.mb * 10**6 > (limits.memory or _DEFAULT_BYTES):
        lines.append(
            f'{largest.name} takes {largest.mb} MB: builder.job-memory = "{largest.mb}MB" reserves that for files that '
            "were never compiled here"
        )
    device = sum(command.seconds for command in used.commands if ".cu" in PurePosixPath(command.name).suffixes)
    if device > max(_WORTH_S, used.busy / 2):
        each = [f"{name} {seconds:.0f} s" for name, seconds in device_seconds(profile).items()]
        adds = f" ({', '.join(each)})" if each else ""
        lines.append(
            f"device code takes {device:.0f} s of {used.busy:.0f} s: each architecture adds to it{adds}; "
            "`wheel-bakery gpus` shows which ones a list needs"
        )
    elsewhere = {command.name for other in others for command in summary(other).commands}
    common = [command for command in used.commands if command.name in elsewhere]
    again = sum(command.seconds for command in common)
    if again > _WORTH_S:
        lines.append(
            f"{len(common)} files, {again:.0f} s, were compiled for other cells of the run, too: a native step compiles once "
            "what does not include Python.h"
        )
    return lines


def trace(profile: CellProfile) -> dict[str, Json]:
    """Return the times as a Chrome trace: a process for BuildKit's steps, one for compilers, one for ninja."""
    steps = [step for step in profile.steps if not step.cached]
    kinds: dict[str, Sequence[Command | StepTime]] = {
        "BuildKit steps": steps,
        "compilers": [command for command in profile.commands if command.kind == "compile"],
        "ninja": [command for command in profile.commands if command.kind == "ninja"],
    }
    zero = min((item.start for items in kinds.values() for item in items), default=0.0)
    events: list[Json] = []
    for pid, (kind, items) in enumerate(kinds.items(), 1):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": kind}})
        # Each row shows commands that did not run at the same time: when its last one ended, and its number.
        rows: list[tuple[float, int]] = []
        for item in sorted(items, key=lambda item: item.start):
            row = heapq.heappop(rows)[1] if rows and rows[0][0] <= item.start else len(rows)
            heapq.heappush(rows, (item.start + item.seconds, row))
            event: dict[str, Json] = {
                "ph": "X",
                "name": item.name if isinstance(item, Command) else item.title,
                "ts": round((item.start - zero) * 1e6),
                "dur": round(item.seconds * 1e6),
                "pid": pid,
                "tid": row + 1,
            }
            if isinstance(item, Command) and item.mb:
                event["args"] = {"MB": item.mb}
            events.append(event)
    return {"traceEvents": events, "displayTimeUnit": "ms"}
