"""Why stages of a cell are built again: their inputs compared with those of an earlier bake."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bakery.runs import cell_profile
from bakery.runs.cell_inputs import COMMANDS, CellInputs, StageInputs, bakes_of
from bakery.runs.journal import Result, read_journal
from bakery.runs.run_folders import kept_runs

_AFTER_BAKE = ("package ", "image ")
"""What is known of a bake only at its end, without a lock: a release of a package, and the digest of a base image."""

_BECAUSE = "because "

_MODE = -4
"""Where the mode of a file begins in its digest."""


class State(StrEnum):
    """What the engine does with a stage."""

    REBUILT = "rebuilt"
    CACHED = "cached"
    DEPENDS = "depends"
    """It is rebuilt if the result of another stage differs."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A stage, what the engine does or did with it, and why; several texts, the most telling first."""

    stage: str
    state: State
    because: tuple[str, ...] = ()

    @property
    def follows(self) -> bool:
        """Whether it is rebuilt only because another stage is."""
        return bool(self.because) and self.because[0].startswith(_BECAUSE)

    def __str__(self) -> str:
        """Return one line, such as ``compile: rebuilt, src/lexer.c changed (and 2 more)``."""
        return ", ".join(filter(None, (f"{self.stage}: {_WORDS[self.state]}", summary(self.because))))


_WORDS = {State.REBUILT: "rebuilt", State.CACHED: "cached", State.DEPENDS: "rebuilt if another result differs"}


def summary(texts: tuple[str, ...]) -> str:
    """Return the first of several texts, and how many more there are."""
    return texts[0] + (f" (and {len(texts) - 1} more)" if texts[1:] else "") if texts else ""


def reasons(old: CellInputs, new: CellInputs, ran: Mapping[str, bool] | None = None) -> tuple[Reason, ...]:
    """Return what happens to each stage of ``new``, in order, after a bake of ``old``.

    ``ran``: stage → whether the engine ran one of its steps; None for a bake that is still to come.
    """
    known: dict[str, Reason] = {}
    for name, inputs in new.stages.items():
        because = changes(old, new, name)
        if ran is not None and inputs.runs and not ran.get(name):
            known[name] = Reason(name, State.CACHED)
            continue
        states = {other: known[other].state for other in (inputs.base, *inputs.results) if other in known}
        rebuilt = tuple(f"{_BECAUSE}{other} is" for other, state in states.items() if state is State.REBUILT)
        maybe = tuple(f"as {other} may" for other, state in states.items() if state is not State.CACHED)
        if because:
            known[name] = Reason(name, State.REBUILT, because)
        elif ran is not None and inputs.runs:
            known[name] = Reason(name, State.REBUILT, rebuilt or ("the engine did not have it",))
        elif states.get(inputs.base) is State.REBUILT:
            known[name] = Reason(name, State.REBUILT, (f"{_BECAUSE}{inputs.base} is",))
        else:
            known[name] = Reason(name, State.DEPENDS if maybe else State.CACHED, maybe)
    return tuple(known.values())


_STEP = re.compile(r"\[(?:\S+ )?(?P<stage>\S+) \d+/\d+\] (?!FROM )")


def ran_stages(state: Path, recipe: str, cell: str, run: str) -> dict[str, bool] | None:
    """Return stage → whether the engine ran one of its steps in a run; None if the run is not kept."""
    folder = next((path for path in kept_runs(state) if path.name == run), None)
    profile = cell_profile.read(folder, cell) if folder else None
    if profile is None or profile.recipe != recipe:
        return None
    ran: dict[str, bool] = {}
    for step in profile.steps:
        if match := _STEP.match(step.title):
            ran[match["stage"]] = ran.get(match["stage"], False) or not step.cached
    return ran


def names_packages(inputs: CellInputs) -> bool:
    """Return whether releases of packages and digests of base images are among the inputs."""
    return any(_has(stage, kind) for stage in inputs.stages.values() for kind in _AFTER_BAKE)


def all_changes(old: CellInputs, new: CellInputs) -> tuple[str, ...]:
    """Return every input of a cell that differs, each once."""
    return tuple(dict.fromkeys(text for name in new.stages for text in changes(old, new, name)))


def changed_since_wheel(state: Path, recipe: str, cell: str, stages: Mapping[str, StageInputs]) -> str:
    """Return what differs between the newest bake of a cell and the last one that made its wheel; empty if unknown.

    ``stages``: the inputs of the newest bake, with what only the bake made known.
    """
    bakes = [*bakes_of(state, recipe, cell)]
    for journal, old in bakes[1:]:
        record = read_journal(journal).get(cell)
        if record and record.result is Result.DONE:
            return summary(all_changes(old, bakes[0][1].model_copy(update={"stages": stages})))
    return ""


def changes(old: CellInputs, new: CellInputs, stage: str) -> tuple[str, ...]:
    """Return the inputs of a stage that differ from an earlier bake: files first."""
    before, now = old.stages.get(stage), new.stages[stage]
    if before is None:
        return ("not built before",)
    files = _files(_below(old.files, now.files), _below(new.files, now.files))
    return (*files, *_values(before, now))


def _values(before: StageInputs, now: StageInputs) -> Iterator[str]:
    if before.base != now.base:
        yield f"base {before.base} -> {now.base}"
    unknown = tuple(kind for kind in _AFTER_BAKE if not all(_has(inputs, kind) for inputs in (before, now)))
    for name in sorted({*before.values, *now.values}, key=lambda name: (name == COMMANDS, name)):
        old, new = before.values.get(name), now.values.get(name)
        if old == new or name.startswith(unknown):
            continue
        if name == COMMANDS:
            yield "its commands changed"
        elif old is None:
            yield f"{name} is new" if name.startswith("program ") else f"{name} is now {new or 'empty'}"
        elif new is None:
            yield f"{name} is gone"
        else:
            yield f"{name} changed" if name.startswith("program ") else f"{name} {old or 'empty'} -> {new or 'empty'}"


def _has(inputs: StageInputs, kind: str) -> bool:
    return any(name.startswith(kind) for name in inputs.values)


def _files(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if name not in old:
            yield f"{name} is new"
        elif name not in new:
            yield f"{name} is gone"
        elif old[name] != new[name]:
            is_mode = old[name][:_MODE] == new[name][:_MODE]
            yield f"the mode of {name} changed" if is_mode else f"{name} changed"


def _below(files: Mapping[str, str], sources: tuple[str, ...]) -> dict[str, str]:
    """Return the files that are one of ``sources``, or in one of these folders."""
    if "." in sources:
        return dict(files)
    folders = tuple(f"{source}/" for source in sources)
    return {name: digest for name, digest in files.items() if name in sources or name.startswith(folders)}
