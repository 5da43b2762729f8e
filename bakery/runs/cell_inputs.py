"""What each stage of a cell was built from, kept for ``why``: a file beside the journal of each run that baked.

The content of a source file is a short digest: it only tells whether the file changed. Nothing but messages depends on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from bakery.core.errors import reported
from bakery.core.files import write_file
from bakery.core.names import TARGET_ARCH
from bakery.emit.dockerfile import program_texts
from bakery.plan.dockerfile import Arg, Command, Env, Run, Stage, Step
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage
from bakery.plan.values import Ref, Value, expand
from bakery.resolve.asking import STAGE as GIT
from bakery.runs.cell_tasks import CellTask
from bakery.runs.journal import INPUTS, journals
from bakery.runs.lock.model import Materials
from bakery.runs.run_options import CellSelection, Options
from bakery.runs.selection import Run as BakeRun
from bakery.runs.selection import select
from bakery.toolchains.program_mounts import PROGRAMS, STAGE
from wheel_audit.plain_files import read_plain
from wheel_audit.readers import json_of

MAX_FILES = 20_000
"""Source files that are listed one by one; in larger trees, each folder of the first level counts as one file."""

_MAX_BYTES = 256 << 20
_DIGEST = len("sha256:") + 12
"""Characters of the digest of an image that are kept."""

COMMANDS = "commands"


class StageInputs(BaseModel):
    """The inputs of a stage for one cell.

    Attributes:
        values: such as ``build argument X`` → its value, ``program net`` → a digest of it.
        base: the stage or image that it starts from.
        results: stages whose results it copies or mounts.
        files: files and folders of the build context that it copies or mounts.
        runs: it has commands.
    """

    model_config = ConfigDict(frozen=True)

    values: dict[str, str]
    base: str
    results: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    runs: bool = True


class CellInputs(BaseModel):
    """The inputs of a cell in one bake: stage → its inputs, in the order of the Dockerfile; file → digest of its content."""

    model_config = ConfigDict(frozen=True)

    stages: dict[str, StageInputs]
    files: dict[str, str]
    run: str = ""

    def with_repository(self, digest: str) -> CellInputs:
        """Return these inputs with the digest of the repository that the build asked; only its steps tell whether it did."""
        stage = self.stages.get(GIT)
        if stage is None:
            return self
        values = {**stage.values, "repository": digest[:12]}
        return self.model_copy(update={"stages": {**self.stages, GIT: stage.model_copy(update={"values": values})}})


class _Document(BaseModel):
    run: str
    files: dict[str, str]
    stages: tuple[StageInputs, ...]
    cells: dict[str, dict[str, int]]


def inputs_of(
    plan: Plan, tasks: Iterable[CellTask], locked: Mapping[str, Materials]
) -> dict[str, dict[str, StageInputs]]:
    """Return cell → stage → its inputs, for the stages that the targets of tasks build."""
    lineage = Lineage(plan)
    programs: dict[str, str] = {}
    for path, text in program_texts(plan).items():
        name = "/".join(path.split("/")[:2])
        programs[name] = _short(programs.get(name, "") + text)
    texts = {stage.name: _commands(stage) for stage in plan.stages}
    inputs = {}
    for task in tasks:
        used = lineage.of(task.cell, [target.kind for target in task.targets])
        args = {**plan.args_of(task.cell), TARGET_ARCH: task.cell.platform.partition("/")[2]}
        for override in task.overrides(plan):
            if override.key.startswith("args."):
                args[override.key.removeprefix("args.")] = override.value
        materials = locked.get(task.name, Materials())
        inputs[task.name] = {
            stage.name: _stage(stage, args, materials, texts[stage.name], programs)
            for stage in plan.stages
            if stage.name in used
        }
    return inputs


def _stage(
    stage: Stage, args: Mapping[str, str], materials: Materials, commands: str, programs: Mapping[str, str]
) -> StageInputs:
    base, *results = stage.dependencies(args)
    values = {COMMANDS: commands} if commands else {}
    for name, value in _values(stage):
        values[name] = expand(value, args)
    for step in stage.steps:
        if isinstance(step, Run) and step.programs:
            values |= {f"program {name}": programs[f"{step.programs}/{name}"] for name in PROGRAMS[step.programs]}
        if isinstance(step, Run) and step.resolves and step.resolves.place in materials.packages:
            files = materials.packages[step.resolves.place].files.values()
            values |= {f"package {file.name}": file.version for file in files}
    values |= {f"image {name}": digest[:_DIGEST] for (name, _), digest in materials.images.items() if name == base}
    return StageInputs(
        values=values,
        base=base,
        results=tuple(name for name in results if name != STAGE),
        files=stage.context_paths(),
        runs=any(not isinstance(step, Arg | Env) for step in stage.steps),
    )


def _values(stage: Stage) -> Iterator[tuple[str, Value]]:
    """Yield the build arguments and environment variables of a stage, by their names in messages."""
    for step in stage.steps:
        match step:
            case Arg(name):
                yield f"build argument {name}", (Ref(name),)
            case Env(pairs):
                yield from ((f"environment variable {name}", value) for name, value in pairs)
            case Run(commands):
                for command in commands:
                    pairs = command.environment if isinstance(command, Command) else ()
                    yield from ((f"environment variable {name}", value) for name, value in pairs)


def _commands(stage: Stage) -> str:
    """Return a digest of the steps of a stage without what `_values` has; empty for a stage without others."""
    steps = [_plain(step) for step in stage.steps if not isinstance(step, Arg | Env)]
    return _short(repr(steps)) if steps else ""


def _plain(step: Step) -> Step:
    if not isinstance(step, Run):
        return step
    commands = (replace(item, environment=()) if isinstance(item, Command) else item for item in step.commands)
    return replace(step, commands=tuple(commands), comment="")


def _short(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def listed(contents: Mapping[str, bytes]) -> dict[str, str]:
    """Return the digests of files as they are kept: one by one, or by folder if there are too many."""
    files = {
        name.encode(errors="surrogateescape").decode(errors="replace"): value.hex() for name, value in contents.items()
    }
    if len(files) <= MAX_FILES:
        return files
    folders: dict[str, list[str]] = {}
    for name, digest in files.items():
        folders.setdefault(name.partition("/")[0], []).append(digest)
    return {name: _short("".join(digests)) for name, digests in folders.items()}


def write(
    journal: Path, run: str, contents: Mapping[str, bytes], cells: Mapping[str, Mapping[str, StageInputs]]
) -> None:
    """Write the inputs of a run beside its journal; what several cells share is written once. Raises OutputError."""
    numbers: dict[str, int] = {}
    rows = {
        cell: {
            name: numbers.setdefault(inputs.model_dump_json(exclude_defaults=True), len(numbers))
            for name, inputs in stages.items()
        }
        for cell, stages in cells.items()
    }
    document = {"run": run, "files": listed(contents), "stages": list(map(json_of, numbers)), "cells": rows}
    path = journal.with_suffix(INPUTS)
    with reported(f"cannot write {path}"):
        write_file(path, json.dumps(document).encode())


@lru_cache(maxsize=8)
def _read(path: Path, _changed: int) -> _Document:
    return _Document.model_validate_json(read_plain(path, _MAX_BYTES))


def bakes_of(state: Path, recipe: str, cell: str) -> Iterator[tuple[Path, CellInputs]]:
    """Yield the inputs of the kept bakes of a cell, the newest first, each with the journal of its run."""
    for journal in reversed(journals(state, recipe)):
        try:
            path = journal.with_suffix(INPUTS)
            document = _read(path, path.stat().st_mtime_ns)
            stages = {name: document.stages[number] for name, number in document.cells.get(cell, {}).items()}
        except (OSError, ValidationError, IndexError):
            continue
        if stages:
            yield journal, CellInputs(stages=stages, files=document.files, run=document.run)


def current(
    root: Path, plan: Plan, cell: str, last: CellInputs, state: Path, environment: Mapping[str, str]
) -> CellInputs:
    """Return the inputs of a cell as a bake of the same kinds of targets as ``last`` has them now. Raises BakeryError."""
    (planned,) = plan.filter_by_id([cell]).cells
    kinds = tuple(str(kind) for kind in plan.kinds if plan.stage_of(kind, planned) in last.stages)
    options = Options(kinds or ("default",), only=(cell,), selection=CellSelection.ALL, state=state)
    chosen = select(BakeRun.of(root, plan, options, environment), plan, {})
    stages = inputs_of(chosen.plan, [chosen.tasks[cell]], chosen.locked)[cell]
    return CellInputs(stages=stages, files=listed(chosen.source.short))
