"""What a run is asked for, beyond its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bakery.build.lock.materials import Materials


class CellSelection(StrEnum):
    """Which of the selected cells a run builds, by the result of the last run."""

    ALL = "all"
    UNFINISHED = "unfinished"
    """Those that the last run did not finish, or that changed since."""
    FAILED = "failed"
    """Those that failed in the last run."""


@dataclass(frozen=True, slots=True)
class PinnedMaterials:
    """The materials that cells must use, from a record of an earlier build.

    Attributes:
        cells: cell → packages and commits.
        images: name → digest of base images; others are as they are here.
        record: what messages call it.
    """

    cells: Mapping[str, Materials]
    images: Mapping[str, str]
    record: str = "its provenance"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says about a bake.

    Attributes:
        groups: the targets asked for: ``wheel``, ``full``, ….
        only: globs over cells; none for all.
        output: the folder for wheels; None for the recipe's.
        builder: the builder's name; None for the current one.
        allow: what the recipe may do on this machine beyond its folder, as ``--allow`` says it.
        keep_going: a failed cell stops only what depends on it; None for that where there are several cells.
        parallel: cells that are baked at once; 0 for as many as the engine has cores.
        retries: further tries of a cell that the network or the engine failed.
        cell_timeout_s: seconds that one try of a cell may take, None for any.
        deadline: local clock when the time for all is over, None for never.
        selection: which of the cells are built.
        locked: refuse everything that the recipe's lock does not hold.
        pinned: the materials that cells must use, in place of the recipe's lock; None to use the lock.
        compiler_cache: the folder that compiler caches come from and go to; None for neither.
        state: the folder of the run, which then keeps no journal; None for the project's.
    """

    groups: tuple[str, ...]
    only: tuple[str, ...] = ()
    output: Path | None = None
    no_cache: bool = False
    pull: bool = False
    builder: str | None = None
    allow: tuple[str, ...] = ()
    keep_going: bool | None = None
    parallel: int = 0
    retries: int = 2
    cell_timeout_s: float | None = None
    deadline: float | None = None
    selection: CellSelection = CellSelection.ALL
    locked: bool = False
    pinned: PinnedMaterials | None = None
    compiler_cache: Path | None = None
    state: Path | None = None
