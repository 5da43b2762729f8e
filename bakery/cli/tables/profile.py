"""The profile of a cell: for people, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from bakery.plan.values import Json
from bakery.runs.cell_profile import CellProfile, Summary
from wheel_audit.tables import plain_table
from wheel_audit.text import printable


def render(profile: CellProfile, used: Summary, advice: Sequence[str], most: int) -> Group:
    """Return tables of the slowest steps and commands, a line about the cores, and the advice."""
    steps = plain_table(Column("step"), _right("time"), title=f"{profile.recipe} {profile.cell}")
    for step in sorted((item for item in profile.steps if not item.cached), key=lambda item: -item.seconds)[:most]:
        # The text is cut, not the column: rich narrows columns that may not wrap all alike, and would cut the time.
        steps.add_row(Text(printable(step.title), no_wrap=True, overflow="ellipsis"), f"{step.seconds:.1f} s")
    if not used.commands:
        return Group(steps)
    title = "compilers and linkers" if used.commands[0].kind == "compile" else "commands of ninja"
    columns = map(_right, ("time", "waited", "alone", "memory"))
    files = plain_table(Column(title, overflow="fold"), *columns)
    for item in used.commands[:most]:
        waited, alone = used.waited.get(item), used.alone.get(item.name, 0.0)
        files.add_row(
            Text(printable(item.name)),
            f"{item.seconds:.1f} s",
            "" if waited is None else f"{waited:.1f} s",
            f"{alone:.1f} s" if alone else "",
            f"{item.mb} MB" if item.mb else "",
        )
    line = f"{len(used.commands)} commands, {used.busy:.1f} s of work in {used.wall:.1f} s"
    if profile.cores and used.wall:
        share = used.idle / (profile.cores * used.wall)
        line += f"; {profile.cores} cores, idle {used.idle:.1f} s ({share:.0%})"
    parts = [steps, Text(), files, Text(), *_phases(profile, most), Text(line)]
    return Group(*parts, *(Text(f"→ {printable(text)}") for text in advice))


def _phases(profile: CellProfile, most: int) -> list[RenderableType]:
    """Return the table of nvcc's phases, if it told any, and an empty line."""
    if not profile.phases:
        return []
    table = plain_table(Column("phase of nvcc, all files"), Column("architecture"), _right("time"))
    for phase in sorted(profile.phases, key=lambda item: -item.seconds)[:most]:
        table.add_row(Text(printable(phase.name)), Text(printable(phase.architecture)), f"{phase.seconds:.1f} s")
    return [table, Text()]


def _right(name: str) -> Column:
    return Column(name, justify="right", no_wrap=True)


def document(
    profile: CellProfile, used: Summary, advice: Sequence[str], run: str, *, cached_since: bool
) -> dict[str, Json]:
    """Return the profile as JSON; times are seconds, starts are seconds since 1970."""
    return {
        "version": 1,
        "recipe": profile.recipe,
        "cell": profile.cell,
        "run": run,
        "cached_since": cached_since,
        "cores": profile.cores,
        "wall": round(used.wall, 3),
        "busy": round(used.busy, 3),
        "idle": round(used.idle, 3),
        "steps": [step.model_dump() for step in profile.steps],
        "commands": [
            {**item.model_dump(), "waited": round(used.waited[item], 3) if item in used.waited else None}
            for item in profile.commands
        ],
        "phases": [phase.model_dump() for phase in profile.phases],
        "alone": {name: round(seconds, 3) for name, seconds in sorted(used.alone.items(), key=lambda item: -item[1])},
        "advice": list(advice),
    }
