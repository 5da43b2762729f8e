"""Options of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from bakery.core.source_manifest import Sources
from bakery.core.store_address import StoreAddress
from bakery.runs.lock.model import Materials
from bakery.runs.publish import Claims


class CellSelection(StrEnum):
    """Which of the selected cells a run builds, by the result of the last run."""

    ALL = "all"
    CHANGED = "changed"
    """``UNFINISHED``, plus cells whose inputs are tags or branches that may have moved."""
    UNFINISHED = "unfinished"
    """Not finished by the last run, or changed since."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PinnedMaterials:
    """The materials that cells must use, from a record of an earlier build (``record`` in messages).

    ``cells``: cell → packages and commits; ``images``: name → digest of base images, others are not pinned.
    """

    cells: Mapping[str, Materials]
    images: Mapping[str, str]
    record: str = "its provenance"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a bake.

    Attributes:
        groups: kinds of targets: ``wheel``, ``full``, ….
        keep_going: a failed cell stops only its dependents; None: if there are several cells.
        parallel: the maximum number of parallel cells; 0 for the number of the engine's cores.
        retries: of a cell after a failure of the network or the engine.
        cell_timeout_s: time limit of one try of a cell in seconds.
        deadline: time limit of the run by the local monotonic clock.
        locked: fail if anything differs from the recipe's lock.
        pinned: replaces the recipe's lock.
        compiler_cache: the folder or store that compiler caches are restored from and saved to.
        compiler_cache_read_only: nothing is saved.
        state: a folder for the run and its state; None for those of the project.
        sources: the sources that this command read.
        claims: what built each wheel of this command; its runs share them.
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
    compiler_cache: Path | StoreAddress | None = None
    compiler_cache_read_only: bool = False
    state: Path | None = None
    sources: Sources = field(default_factory=Sources, compare=False, repr=False)
    claims: Claims = field(default_factory=Claims, compare=False)

    @property
    def bakes_all(self) -> bool:
        """Whether the run bakes cells that are up to date, too: it was asked for, or for what only a bake does."""
        does_more = self.no_cache or self.pull or self.locked or isinstance(self.compiler_cache, Path)
        return self.selection is CellSelection.ALL or (self.selection is CellSelection.CHANGED and does_more)
