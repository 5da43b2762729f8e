"""The tasks of a run: for each cell its targets, its state, and the keys that tell whether it changed."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from bakery import __version__
from bakery.core.errors import BakeryError
from bakery.core.target_kinds import Kind
from bakery.emit.bakefile import bake_json
from bakery.emit.dockerfile import build_digest
from bakery.plan.cells import Cell, Target
from bakery.plan.delivery import Override
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage
from bakery.runs.journal import Result

if TYPE_CHECKING:
    from bakery.runs.audited import AuditResult
    from bakery.runs.buildx.bake_outcome import BakeOutcome


@dataclass(frozen=True, slots=True)
class CellTask:
    """The part of a run that one process builds: a cell, and with cibuildwheel the cells that share its wheel."""

    cell: Cell
    targets: tuple[Target, ...]

    @property
    def name(self) -> str:
        """The cell's id."""
        return self.cell.id

    @property
    def cells(self) -> tuple[str, ...]:
        """The ids of all cells of its targets."""
        return tuple(dict.fromkeys(target.cell.id for target in self.targets))

    def has(self, kind: Kind) -> bool:
        """Whether a target of ``kind`` is among its targets."""
        return any(target.kind is kind for target in self.targets)

    def overrides(self, plan: Plan) -> list[Override]:
        """Return what ``--set`` changes of one of its targets."""
        names = [target.name for target in self.targets]
        return [item for item in plan.overrides if any(fnmatch.fnmatchcase(name, item.pattern) for name in names)]


class Recovery(StrEnum):
    """What another try does without, because it lost a layer."""

    NO_BUILD_CACHE = "without the engine's build cache"
    NO_LAYER_CACHE = "without the layer cache"


@dataclass(slots=True)
class CellState:
    """The state of a task.

    Attributes:
        outcome: of its last try; None before the first.
        skip_reason: why it was not built, if nothing in it failed.
        failed_in: the task in which a step failed that this one needs, too; empty for none.
        node: the node of its last try; empty for the engine.
        lost_nodes: nodes that failed while they built it.
        recoveries: what the next try does without.
    """

    result: Result = Result.CANCELED
    outcome: BakeOutcome | None = None
    tries: int = 0
    wheels: tuple[AuditResult, ...] = ()
    error: BakeryError | None = None
    skip_reason: str = ""
    failed_in: str = ""
    node: str = ""
    lost_nodes: tuple[str, ...] = ()
    cache_problems: tuple[str, ...] = ()
    recoveries: tuple[Recovery, ...] = ()


def cell_tasks(targets: Sequence[Target]) -> dict[str, CellTask]:
    """Return cell → its task, in the order of the plan's cells."""
    cells: dict[str, list[Target]] = {}
    for target in targets:
        cells.setdefault(target.cell.id, []).append(target)
    return {name: CellTask(items[0].cell, tuple(items)) for name, items in cells.items()}


def publish_groups(tasks: Mapping[str, CellTask]) -> dict[str, tuple[str, ...]]:
    """Return task → the tasks that share its wheel, with itself; the wheel is published when all passed."""
    groups: dict[str, list[str]] = {}
    for name, task in tasks.items():
        groups.setdefault(task.cell.built_by, []).append(name)
    return {name: tuple(group) for group in groups.values() for name in group}


def cell_keys(plan: Plan, tree: str, tasks: Iterable[CellTask]) -> dict[str, str]:
    """Return cell → digest of its inputs: recipe, values, files, targets and the version of bakery.

    Secrets are not inputs, nor the current image of a tag or commit of a branch. ``tree``: the digest of the files that
    steps read.
    """
    common = [__version__, build_digest(plan), *plan.ignore, tree, repr(plan.audits)]
    return {
        task.name: hashlib.sha256(
            json.dumps([*common, bake_json(plan, task.targets)], sort_keys=True).encode(errors="surrogateescape")
        ).hexdigest()
        for task in tasks
    }


def stage_keys(plan: Plan, lineage: Lineage, task: CellTask) -> dict[str, str]:
    """Return stage → digest of its inputs; of tasks with the same digest, BuildKit runs the steps once."""
    overrides = [f"{override.key}={override.value}" for override in task.overrides(plan)]
    stages = lineage.of(task.cell, [target.kind for target in task.targets])
    return {stage: json.dumps([digest, *overrides]) for stage, digest in stages.items()}
