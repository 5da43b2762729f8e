"""Estimates of the disk space that the layers of cells take."""

from __future__ import annotations

from collections.abc import Mapping

from bakery.plan.dockerfile import Role
from bakery.plan.model import Plan
from bakery.plan.shards import CellGroup
from bakery.plan.stage_digests import Lineage
from bakery.toolchains.facts import disk_sizes


def disk(group: CellGroup) -> int:
    """Return the estimated size in GB of the layers of a group."""
    lineage = Lineage(group.plan)
    cells = [(lineage.of(cell), group.plan.args_of(cell)) for cell in group.cells]

    def first(role: Role, digests: Mapping[str, str]) -> str:
        found = (stage.name for stage in group.plan.stages if stage.role is role and stage.name in digests)
        return digests.get(next(found, ""), "")

    distinct = {
        "python": {first(Role.ROOT, stages) for stages, _ in cells},
        "cuda": {first(Role.CUDA, stages) for stages, args in cells if "CUDA_VERSION" in args},
        # A framework without a stage of its own is in the stage with the build backend.
        "framework": {
            first(Role.FRAMEWORK, stages) or first(Role.BACKEND, stages)
            for stages, args in cells
            if {"TORCH_VERSION", "JAX_VERSION"} & {*args}
        },
    }
    sizes = disk_sizes()
    return sum(sizes[what] * len(digests) for what, digests in distinct.items())


def cached(plan: Plan, packed: float) -> float:
    """Return the estimated size in GB of the layers of all cells in a cache that compresses them to ``packed``."""
    return disk(CellGroup(plan, plan.cells)) * packed if plan.cells else 0.0
