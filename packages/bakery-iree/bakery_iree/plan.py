"""The plan of a job. It has no unset values; emitters, the compiler and reports read nothing else."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bakery.core.cell_ids import MACHINES
from bakery.core.errors import UsageError
from bakery.plan.values import Json
from bakery_iree.mlir import Function
from bakery_iree.models.module import TargetRecord

PLATFORMS = {machine: platform for platform, machine in MACHINES.items() if platform.startswith("linux/")}
"""CPU architecture → platform in Docker's spelling."""

BATCH = 32
"""Cells that are baked together: one call of buildx costs as much as the compilation of a small module."""


class ModuleTarget(TargetRecord):
    """A target of a compilation, with the ``flags`` of iree-compile.

    ``is_local``: the result depends on the machine that compiles.
    """

    flags: tuple[str, ...]
    is_local: bool = False

    @property
    def slug(self) -> str:
        """The name in files and bake targets: ``cuda-sm_80``."""
        return self.name.replace(":", "-")


@dataclass(frozen=True, slots=True)
class Source:
    """An input module.

    Attributes:
        shown: the path in messages.
        sha256: of its bytes, in hexadecimal.
        size: in bytes.
        functions: the exported functions; empty for bytecode.
        problem: why it cannot be compiled; empty if no problem is known.
    """

    path: Path
    shown: str
    sha256: str
    size: int
    functions: tuple[Function, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ModuleCell:
    """One module for one target; ``is_measured`` if its job has a benchmark for it."""

    name: str
    source: Source
    target: ModuleTarget
    flags: tuple[str, ...]
    is_measured: bool = False

    @property
    def id(self) -> str:
        """The name of its files and logs, and of its row in tables."""
        return f"{self.name}.{self.target.slug}"

    @property
    def file_name(self) -> str:
        """The file name of its module."""
        return f"{self.id}.vmfb"

    @property
    def slug(self) -> str:
        """The id in stages and bake targets."""
        # No target's name has two dashes in a row, and no module's ends with one: two cells never get one name.
        return f"{self.name}--{self.target.slug}".lower()


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The plan of one job.

    Attributes:
        compiler: the release of iree-base-compiler.
        runtime: the release of iree-base-runtime that results are for.
        output: the folder for results.
        root: the project; a link cannot lead the output out of it.
    """

    compiler: str
    runtime: str
    output: Path
    root: Path
    cells: tuple[ModuleCell, ...]

    def select(self, only: Iterable[str]) -> JobPlan:
        """Return the plan with the cells whose ids match a glob; without globs, with all cells.

        Raises UsageError if no cell matches.
        """
        globs = tuple(only)
        cells = tuple(cell for cell in self.cells if any(fnmatch.fnmatchcase(cell.id, glob) for glob in globs))
        if globs and not cells:
            some = ", ".join(cell.id for cell in self.cells[:8])
            raise UsageError(f"no cell matches {', '.join(globs)}", hint=f"cells: {some}")
        return replace(self, cells=cells) if globs else self

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of inputs, each once. Their cells fail; the others are compiled."""
        return tuple(dict.fromkeys(cell.source.problem for cell in self.cells if cell.source.problem))

    def batches(self) -> tuple[tuple[ModuleCell, ...], ...]:
        """Return the cells in the groups that are baked together."""
        return tuple(self.cells[start : start + BATCH] for start in range(0, len(self.cells), BATCH))

    def inputs(self) -> tuple[tuple[tuple[ModuleCell, ...], ...], ...]:
        """Return for each batch its cells by input: one step compiles an input for all its targets in the batch.

        Inputs do not share a step, because a compiler that one of them takes over could change the results of others.
        Targets that depend on the machine have a step of their own, whose result is not that of other machines.
        """
        groups = []
        for batch in self.batches():
            cells: dict[tuple[str, bool], list[ModuleCell]] = {}
            for cell in batch:
                cells.setdefault((cell.source.sha256, cell.target.is_local), []).append(cell)
            # The order of targets in a job makes no other step.
            groups.append(tuple(tuple(sorted(group, key=lambda cell: cell.flags)) for group in cells.values()))
        return tuple(groups)

    def to_json(self) -> dict[str, Json]:
        """Return the plan as JSON values."""
        return {
            "version": 1,
            "compiler": self.compiler,
            "output": str(self.output),
            "cells": [
                {
                    "id": cell.id,
                    "input": cell.source.shown,
                    "sha256": cell.source.sha256,
                    "target": cell.target.name,
                    "flags": list(cell.flags),
                    "problem": cell.source.problem,
                }
                for cell in self.cells
            ],
        }


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job of a repository, for the generated workflow; ``path`` is relative to the repository, in POSIX form."""

    path: str
    plan: JobPlan
