"""The stages of a cell, each with a digest of all that decides its content.

Two cells share a stage if its digests are equal; a change of the recipe affects a cell if one differs. The content of the
build context is not included: it is the same for all cells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property

from bakery.core.names import TARGET_ARCH
from bakery.core.target_kinds import Kind
from bakery.plan.cells import Cell
from bakery.plan.model import Plan

FULL = (Kind.IMAGE, Kind.WHEEL, Kind.TEST)
"""The kinds of target that stand for a cell, where its recipe has them."""


class Lineage:
    """The stages of the cells of a plan. Results are cached."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._stages = {stage.name: stage for stage in plan.stages}
        self._texts = {stage.name: _digest(repr(stage.steps)) for stage in plan.stages}
        used = [name for stage in plan.stages for name in (*stage.declared, *stage.chosen_by)]
        self._used = tuple(dict.fromkeys(used))
        self._known: dict[tuple[str, tuple[str, ...]], dict[str, str]] = {}

    def of(self, cell: Cell, kinds: Iterable[Kind] = FULL) -> dict[str, str]:
        """Return stage → digest of all stages that the cell's targets of some kinds use.

        A wheel that another cell builds counts as the cell's own.
        """
        args = {**self._plan.args_of(cell), TARGET_ARCH: cell.platform.partition("/")[2]}
        point = cell.platform, *(args.get(name, "") for name in self._used)
        return {
            name: digest
            for kind in self._plan.kinds
            if kind in kinds
            for name, digest in self._closure(self._plan.stage_of(kind, cell), args, point).items()
        }

    @cached_property
    def order(self) -> Mapping[str, int]:
        """Stage → its position in the Dockerfile, where shared stages come first."""
        return {name: index for index, name in enumerate(self._stages)}

    def _closure(self, name: str, args: Mapping[str, str], point: tuple[str, ...]) -> dict[str, str]:
        """Return the digests of a stage and of all stages and images below it; for a base image, the digest of its name."""
        if (name, point) not in self._known:
            self._known[name, point] = self._compute(name, args, point)
        return self._known[name, point]

    def _compute(self, name: str, args: Mapping[str, str], point: tuple[str, ...]) -> dict[str, str]:
        stage = self._stages.get(name)
        if stage is None:
            return {name: _digest(name, point[0])}
        below = {other: self._closure(other, args, point) for other in stage.dependencies(args)}
        values = [f"{arg}={args[arg]}" for arg in stage.declared if arg in args]
        digest = _digest(self._texts[name], point[0], *values, *(part[other] for other, part in below.items()))
        lower = {stage: digest for part in below.values() for stage, digest in part.items()}
        return {**lower, name: digest}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
