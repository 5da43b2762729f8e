"""Which layers a cell is made of: its stages, each with a digest of all that decides what the stage holds.

Two cells share a stage where its digests are equal, and a change of the recipe touches a cell where one differs. What
the build context holds is no part of it: that is the same for all cells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property

from bakery.core.names import Kind
from bakery.plan.cells import Cell
from bakery.plan.dockerfile import Arg, Stage
from bakery.plan.model import Plan
from bakery.plan.values import Ref

FULL = (Kind.IMAGE, Kind.WHEEL, Kind.TEST)
"""The kinds of target that stand for a cell, where its recipe has them."""


class Lineage:
    """The stages of a plan's cells; answers are remembered."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._stages = {stage.name: stage for stage in plan.stages}
        self._texts = {stage.name: _digest(repr(stage.steps)) for stage in plan.stages}
        used = [name for stage in plan.stages for name in (*_args(stage), *_bases(stage))]
        self._used = tuple(dict.fromkeys(used))
        self._known: dict[tuple[str, tuple[str, ...]], dict[str, str]] = {}

    def of(self, cell: Cell, kinds: Iterable[Kind] = FULL) -> dict[str, str]:
        """Return stage → digest of all stages that the cell's targets of ``kinds`` are made of.

        A wheel that another cell builds counts as the cell's own.
        """
        args = self._plan.args_of(cell)
        point = cell.platform, *(args.get(name, "") for name in self._used)
        return {
            name: digest
            for kind in self._plan.kinds
            if kind in kinds
            for name, digest in self._closure(self._plan.stage_of(kind), args, point).items()
        }

    @cached_property
    def order(self) -> Mapping[str, int]:
        """Stage → its place in the Dockerfile: what is shared most stands first."""
        return {name: place for place, name in enumerate(self._stages)}

    def _closure(self, name: str, args: Mapping[str, str], point: tuple[str, ...]) -> dict[str, str]:
        """Return the digests of a stage and of all that it is made of; a base image's is that of its name."""
        if (name, point) not in self._known:
            self._known[name, point] = self._made(name, args, point)
        return self._known[name, point]

    def _made(self, name: str, args: Mapping[str, str], point: tuple[str, ...]) -> dict[str, str]:
        stage = self._stages.get(name)
        if stage is None:
            return {name: _digest(name, point[0])}
        below = {other: self._closure(other, args, point) for other in stage.dependencies(args)}
        values = [f"{arg}={args[arg]}" for arg in _args(stage) if arg in args]
        own = _digest(self._texts[name], point[0], *values, *(part[other] for other, part in below.items()))
        return {**{other: digest for part in below.values() for other, digest in part.items()}, name: own}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _args(stage: Stage) -> list[str]:
    return [step.name for step in stage.steps if isinstance(step, Arg)]


def _bases(stage: Stage) -> list[str]:
    return [part.variable for part in stage.base if isinstance(part, Ref)]
