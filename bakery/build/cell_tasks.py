"""What a run has to do, cell by cell: the targets of each, what it waits for, and the key that says whether it changed."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakery import __version__
from bakery.build.context_digest import context_digest
from bakery.build.scheduler import Item, needed
from bakery.core.names import TARGET_KINDS, Kind
from bakery.emit.bakefile import bake_json
from bakery.emit.files import build_digest
from bakery.plan.cells import Cell, Target
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage


@dataclass(frozen=True, slots=True)
class Work:
    """A cell's part of a run: what one bake builds.

    Attributes:
        targets: those of the cell that were asked for.
    """

    cell: Cell
    targets: tuple[Target, ...]

    @property
    def name(self) -> str:
        """The cell's id."""
        return self.cell.id

    def has(self, kind: Kind) -> bool:
        """Whether a target of ``kind`` is among its targets."""
        return any(target.kind is kind for target in self.targets)


@dataclass(frozen=True, slots=True)
class Machine:
    """What an engine has; ``memory`` in MB, 0 where that is not known."""

    cores: int
    memory: int


def works(targets: Sequence[Target]) -> dict[str, Work]:
    """Return cell → its work, in the order of the plan's cells."""
    found: dict[str, list[Target]] = {}
    for target in targets:
        found.setdefault(target.cell.id, []).append(target)
    return {name: Work(own[0].cell, tuple(own)) for name, own in found.items()}


def together(all_works: Mapping[str, Work]) -> dict[str, tuple[str, ...]]:
    """Return cell → the cells whose wheel is published, or kept out, together with its own.

    A wheel must pass what was asked for of every cell that it serves.
    """
    found: dict[str, list[str]] = {}
    for name, work in all_works.items():
        found.setdefault(work.cell.built_by, []).append(name)
    return {name: tuple(members) for members in found.values() for name in members}


def items(plan: Plan, chosen: Iterable[Work], machine: Machine, learnt: Mapping[str, int]) -> list[Item]:
    """Return what the schedule has to know.

    Args:
        learnt: cell → MB that it needed at its peak, where an earlier run saw it.
    """
    some = list(chosen)
    builders = {work.name for work in some if work.has(Kind.WHEEL)}
    declared = needed(plan.job_memory, plan.jobs, machine.cores, machine.memory)
    return [
        Item(
            name=work.name,
            after=work.cell.built_by if work.cell.built_by != work.name and work.cell.built_by in builders else "",
            memory=declared or learnt.get(work.name, 0),
            platform=work.cell.platform,
            group=json.dumps([value for axis, value in sorted(work.cell.axes.items()) if axis != "python"]),
        )
        for work in some
    ]


def keys(plan: Plan, root: Path, chosen: Iterable[Work]) -> dict[str, str]:
    """Return cell → digest of all that defines it: recipe, values, files, targets, bakery itself.

    Secrets are not in it, nor what a name stands for at its source (a tag of an image, a branch).

    Raises:
        OutputError: a file of the project cannot be read.
    """
    tree = context_digest(root / plan.context, plan.context_paths(), plan.ignore)
    common = [__version__, build_digest(plan), *plan.ignore, tree, repr(plan.audit)]
    return {
        work.name: hashlib.sha256(
            json.dumps([*common, bake_json(plan, work.targets)], sort_keys=True).encode(errors="surrogateescape")
        ).hexdigest()
        for work in chosen
    }


def made_of(plan: Plan, lineage: Lineage, work: Work) -> dict[str, str]:
    """Return stage → digest of all that decides what it holds; where two cells have the same, its steps are the same."""
    names = [target.name for target in work.targets]
    given = [
        f"{override.key}={override.value}"
        for override in plan.overrides
        if any(fnmatch.fnmatchcase(name, override.pattern) for name in names)
    ]
    stages = lineage.of(work.cell, [target.kind for target in work.targets])
    return {stage: json.dumps([digest, *given]) for stage, digest in stages.items()}


def is_image(plan: Plan, work: Work) -> bool:
    """Whether the work's result is (also) in the engine, where a person may have removed it."""
    return any(TARGET_KINDS[target.kind].exporter == "docker" for target in work.targets)
