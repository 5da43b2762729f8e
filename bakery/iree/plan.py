"""What is decided about a job: the intermediate representation between a job file and the files that compile it.

Nothing in it is unset. Emitters, the driver and reports read it and nothing before it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bakery.core.errors import UsageError
from bakery.plan.values import Json

BATCH = 16
"""Cells whose results are exported together: one call of buildx costs as much as the compile of a small module."""


@dataclass(frozen=True, slots=True)
class ModuleTarget:
    """What a module is compiled for.

    Attributes:
        name: as a person writes it, ``cuda:sm_80``.
        backend: ``cpu``, ``cuda``, ``vulkan``, ``metal`` or ``rocm``.
        architecture: the device's own name; empty where there is none.
        machine: the machine of a CPU's code, ``x86_64`` or ``aarch64``; empty for GPUs.
        device: what ``iree-run-module --device=`` takes.
        flags: of iree-compile.
        is_local: the result depends on the machine that compiles it.
    """

    name: str
    backend: str
    architecture: str
    machine: str
    device: str
    flags: tuple[str, ...]
    is_local: bool = False

    @property
    def slug(self) -> str:
        """The name as files and bake targets have it: ``cuda-sm_80``."""
        return self.name.replace(":", "-")


@dataclass(frozen=True, slots=True)
class Signature:
    """A function that a module exports: each type as (MLIR's text, shape or None, numpy's dtype or nothing)."""

    name: str
    arguments: tuple[tuple[str, tuple[int | None, ...] | None, str], ...]
    results: tuple[tuple[str, tuple[int | None, ...] | None, str], ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A module as it was handed in.

    Attributes:
        shown: the path as messages write it.
        sha256: of its bytes, in hexadecimal.
        size: bytes.
        functions: what it exports; nothing for bytecode.
        problem: why it cannot be compiled, known before a compiler is asked; empty for nothing.
    """

    path: Path
    shown: str
    sha256: str
    size: int
    functions: tuple[Signature, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ModuleCell:
    """One module for one target.

    Attributes:
        is_measured: its job says how it is measured.
    """

    name: str
    source: Source
    target: ModuleTarget
    flags: tuple[str, ...]
    is_measured: bool = False

    @property
    def id(self) -> str:
        """Names the files, the log and the row of every table."""
        return f"{self.name}.{self.target.slug}"

    @property
    def slug(self) -> str:
        """The id as stages and bake targets have it."""
        # No target's name has two dashes in a row, and no module's ends with one: two cells never get one name.
        return f"{self.name}--{self.target.slug}".lower()


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Everything that is decided about one job.

    Attributes:
        compiler: the release of iree-base-compiler.
        runtime: the release of iree-base-runtime that results are for.
        output: the folder that receives results.
        root: the project; a link may not lead the output out of it.
    """

    compiler: str
    runtime: str
    output: Path
    root: Path
    cells: tuple[ModuleCell, ...]

    def chosen(self, only: Iterable[str]) -> JobPlan:
        """Return the plan with the cells that globs over their ids select; all of them without any.

        Raises:
            UsageError: there are none.
        """
        globs = tuple(only)
        cells = tuple(cell for cell in self.cells if any(fnmatch.fnmatchcase(cell.id, glob) for glob in globs))
        if globs and not cells:
            some = ", ".join(cell.id for cell in self.cells[:8])
            raise UsageError(f"no cell matches {', '.join(globs)}", hint=f"cells: {some}")
        return replace(self, cells=cells) if globs else self

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with inputs, each once: their cells fail, and the others do not."""
        return tuple(dict.fromkeys(cell.source.problem for cell in self.cells if cell.source.problem))

    def batches(self) -> tuple[tuple[ModuleCell, ...], ...]:
        """Return the cells in the groups that are baked together."""
        return tuple(self.cells[start : start + BATCH] for start in range(0, len(self.cells), BATCH))

    def to_json(self) -> dict[str, Json]:
        """Return the plan for machines."""
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
    """A job of a repository, for what is generated of it.

    Attributes:
        path: its file, relative to the repository, in POSIX form.
    """

    path: str
    plan: JobPlan
