"""What the times of a cell mean: idle cores, commands that ran alone or waited, what would help, a Chrome trace."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from bakery.plan.build_facts import JobLimits
from bakery.plan.values import Json
from bakery.runs.cell_profile import CellProfile, Command, StepTime

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
    wall = busy = 0.0
    alone: dict[str, float] = {}
    moments = [(command.start, 1, command) for command in commands] + [(item.end, 0, item) for item in commands]
    running: list[Command] = []
    last = 0.0
    for moment, begins, command in sorted(moments, key=lambda item: item[:2]):
        wall += moment - last if running else 0.0
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
