"""Builds tasks with ``docker buildx bake``: one call for each task, on the engine or on a node of the builder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from bakery.build.bake_context import BakeContext
from bakery.build.buildx.bake import BakeRequest, Bakes
from bakery.build.buildx.outcome import BakeFailure, BakeOutcome, Result
from bakery.build.buildx.retryable import lost_a_layer, may_be_the_cache
from bakery.build.cell_tasks import CellState, CellTask, stage_keys
from bakery.build.local_layer_cache import LocalCaches
from bakery.build.lock.failure import failure
from bakery.build.run_folders import remove_tree
from bakery.plan.stage_digests import Lineage

STILL_S = 600.0
"""Seconds that a layer cache may keep a bake from moving; BuildKit reports no progress while it unpacks a large layer."""


@dataclass(slots=True)
class BuildxBackend:
    """Builds tasks with buildx.

    Attributes:
        common: the request of all tasks.
        imports: bakes read a layer cache.
    """

    context: BakeContext
    bakes: Bakes
    caches: LocalCaches
    common: BakeRequest
    imports: bool
    _lineage: Lineage = field(init=False)

    def __post_init__(self) -> None:
        self._lineage = Lineage(self.context.plan)

    def start(self, task: CellTask, state: CellState) -> None:
        """Start one bake of a task; what an earlier try exported is removed."""
        request = self.context.request(self.common, task, state.node)
        request = replace(
            request,
            no_cache=request.no_cache or state.no_build_cache,
            still_s=STILL_S if self.imports else None,
        )
        if state.use_layer_cache:
            request = self.caches.spared(request)
        else:
            empty = (f"{target.name}.cache-from=" for target in (*request.targets, *request.beside))
            request = replace(request, overrides=(*request.overrides, *empty))
        remove_tree(request.stage / task.name)
        remove_tree(request.stage / "materials" / task.name)
        self.bakes.start(request)

    def turn(self) -> list[tuple[str, BakeOutcome]]:
        """Return the tasks whose bakes ended."""
        ended = []
        for baking, outcome in self.bakes.turn():
            if all(target.result is Result.DONE for target in outcome.targets.values()):
                self.caches.note(baking.request, outcome)
            ended.append((baking.request.targets[0].cell.id, outcome))
        return ended

    def stop(self, names: Collection[str] | None = None) -> None:
        """End some bakes, or all of them."""
        if names is None:
            self.bakes.stop()
        else:
            self.bakes.stop_cells(names)

    def recover(self, state: CellState, outcome: BakeOutcome) -> str:
        """Give up caches that lost a layer, each once."""
        if any(map(lost_a_layer, outcome.failures)) and not state.no_build_cache:
            state.no_build_cache = True
            return "without the engine's build cache"
        if self.imports and state.use_layer_cache and all(map(may_be_the_cache, outcome.failures)):
            state.use_layer_cache = False
            state.cache_problems = (*state.cache_problems, BakeFailure(outcome).message)
            return "without the layer cache"
        return ""

    def stage_keys(self, task: CellTask) -> Mapping[str, str]:
        """Return stage → digest of its inputs."""
        return stage_keys(self.context.plan, self._lineage, task)

    def error(self, task: CellTask, outcome: BakeOutcome) -> BakeFailure:
        """Return the error of a failed bake: of the lock, where a step refused what it was given."""
        return failure(outcome, self.context.lock_name)
