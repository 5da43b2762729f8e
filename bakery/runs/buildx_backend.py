"""Builds tasks with ``docker buildx bake``: one call for each task, on the engine or on a node of the builder.

Tasks whose steps should be cached are one call on the engine, which ends as soon as a command runs.

A local layer cache that already has what a bake would write is not written again. BuildKit pulls and unpacks every layer
that it exports, also one from that same cache, which takes far longer than a run that finds all of them. Other kinds of
caches have no place for a mark.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bakery.core.errors import BakeryError, EngineError
from bakery.core.inside import Inside, remove_tree
from bakery.core.names import CacheBackend
from bakery.emit.cache_attributes import cache_attributes
from bakery.engine.client import Engine
from bakery.engine.session import EngineSession
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage
from bakery.runs.bake_session import Pins, request_of_task
from bakery.runs.buildx.bake import BakeRequest, Bakes
from bakery.runs.buildx.bake_outcome import BakeOutcome
from bakery.runs.buildx.failures import lost_a_layer, may_be_the_cache, went_away
from bakery.runs.cell_tasks import CellState, CellTask, Recovery, stage_keys
from bakery.runs.journal import Result
from bakery.runs.lock.failure import failure
from bakery.runs.lock.pins import NodeImages
from bakery.runs.run_folders import make_own_folder, refuse_links
from wheel_audit.plain_files import read_plain

MARK = "made-of"
"""The file in a cache's folder that identifies its content."""


@dataclass(frozen=True, slots=True)
class LocalCaches:
    """The local layer caches of one run; ``keys``: cell → digest of all that defines it."""

    root: Path
    plan: Plan
    keys: Mapping[str, str]

    def check(self) -> None:
        """Refuse links in the folders of caches: BuildKit writes through them. Raises OutputError for a link."""
        values = self.plan.values()
        if values["CACHE"] == CacheBackend.LOCAL:
            refuse_links(self.root, self.root / values["CACHE_DIR"])
            make_own_folder(self.root)

    def without_unchanged(self, request: BakeRequest) -> BakeRequest:
        """Return a request that does not write the caches that already have what it would write."""
        if request.no_cache or request.pull:
            return request
        unchanged = (
            f"{name}.cache-to="
            for name, (folder, key) in self._cache_folders(request).items()
            if _mark(folder) == _content(folder, key)
        )
        return replace(request, overrides=(*request.overrides, *unchanged))

    def note(self, request: BakeRequest, outcome: BakeOutcome) -> None:
        """Mark the caches that a successful bake wrote.

        The mark is removed if commands ran nevertheless: the target of a tag or an index changed, and the next run
        writes. A mark that cannot be written only means that the cache is written once more.
        """
        for name, (folder, key) in self._cache_folders(request).items():
            was_left_out = f"{name}.cache-to=" in request.overrides
            with contextlib.suppress(OSError):
                if outcome.cache or (was_left_out and outcome.ran):
                    (folder / MARK).unlink(missing_ok=True)
                elif not was_left_out:
                    Inside(folder).write(MARK, _content(folder, key).encode())

    def _cache_folders(self, request: BakeRequest) -> dict[str, tuple[Path, str]]:
        """Return target → the folder that its cache is written to, and the key of its content."""
        values = self.plan.values()
        if values["CACHE"] != CacheBackend.LOCAL or any(item.key.startswith("cache-") for item in self.plan.overrides):
            return {}
        folders = {}
        for target in (*request.targets, *request.beside):
            written = cache_attributes(self.plan, values, target).get("cache-to")
            for entry in written if isinstance(written, list) else ():
                if isinstance(entry, dict):
                    folders[target.name] = (self.root / str(entry["dest"]), self.keys[target.cell.id])
        return folders


_LARGEST = 16 << 20


def _content(folder: Path, key: str) -> str:
    """Return the mark of a cache as it is now; empty for no cache."""
    try:
        return f"{key} {hashlib.sha256(read_plain(folder / 'index.json', _LARGEST)).hexdigest()}\n"
    except OSError:
        return ""


def _mark(folder: Path) -> str | None:
    try:
        return read_plain(folder / MARK, _LARGEST).decode()
    except (OSError, ValueError):
        return None


MOST_TARGETS = 90
"""Targets of one bake: of more than 100, buildx may lose some (docker/buildx#3810)."""


def together(requests: Sequence[BakeRequest]) -> list[BakeRequest]:
    """Return requests of bakes of several cells each; they are given up if a command runs."""
    batches: list[list[BakeRequest]] = []
    room = 0
    for request in requests:
        count = len(request.targets) + len(request.beside)
        if count > room:
            batches.append([])
            room = MOST_TARGETS
        batches[-1].append(request)
        room -= count
    return [
        replace(
            batch[0],
            targets=tuple(target for request in batch for target in request.targets),
            beside=tuple(target for request in batch for target in request.beside),
            overrides=tuple(dict.fromkeys(override for request in batch for override in request.overrides)),
            defer_errors=False,
            only_cached=True,
        )
        if len(batch) > 1
        else batch[0]
        for batch in batches
    ]


STILL_S = 600.0
"""Seconds without progress until a layer cache counts as lost; BuildKit reports none while it unpacks a large layer."""


@dataclass(slots=True)
class BuildxBackend:
    """A backend with buildx.

    Attributes:
        common: the request of all tasks.
        node_images: None for the engine.
        imports: bakes read a layer cache.
    """

    plan: Plan
    engine: EngineSession
    bakes: Bakes
    caches: LocalCaches
    common: BakeRequest
    pins: Pins
    lock_name: str
    node_images: NodeImages | None
    imports: bool
    _lineage: Lineage = field(init=False)
    _together: list[BakeRequest] = field(default_factory=list, init=False)
    """The requests of cells whose steps should be cached, until `turn` starts one bake for them."""

    def __post_init__(self) -> None:
        self._lineage = Lineage(self.plan)

    def request_for(self, task: CellTask, state: CellState) -> BakeRequest:
        """Return the request of the next try of a task."""
        pins, common = self.pins, self.common
        if self.engine.nodes and self.node_images and state.node:
            pins = self.node_images.added(pins, (*task.targets, *self.plan.materials_of(task.targets)))
            builder = self.engine.nodes.node(state.node).builder
            common = replace(common, builder=builder, reads=(*common.reads, self.engine.layouts.folder))
        request = replace(
            request_of_task(common, task, self.plan, pins),
            no_cache=common.no_cache or Recovery.NO_BUILD_CACHE in state.recoveries,
            still_s=STILL_S if self.imports else None,
        )
        if Recovery.NO_LAYER_CACHE not in state.recoveries:
            return self.caches.without_unchanged(request)
        empty = (f"{target.name}.cache-from=" for target in (*request.targets, *request.beside))
        return replace(request, overrides=(*request.overrides, *empty))

    def start(self, task: CellTask, state: CellState, *, cached: bool) -> None:
        """Start one bake of a task, or of all that are ``cached``; the export of an earlier try is removed."""
        request = self.request_for(task, state)
        remove_tree(request.stage / task.name)
        remove_tree(request.stage / "materials" / task.name)
        if cached:
            self._together.append(request)
        else:
            self.bakes.start(request)

    def turn(self) -> list[tuple[str, BakeOutcome]]:
        """Return the tasks whose bakes ended."""
        # One bake for all cached cells: a client costs more than the steps that it asks for.
        for request in together(self._together):
            self.bakes.start(request)
        self._together = []
        ended = []
        for baking, outcome in self.bakes.turn():
            if all(target.result is Result.DONE for target in outcome.targets.values()):
                self.caches.note(baking.request, outcome)
            if cell := baking.request.only_cell:
                ended.append((cell, outcome))
            else:
                ended += [(cell, outcome.of(names)) for cell, names in baking.request.targets_of_cells.items()]
        return ended

    def stop(self, names: Collection[str] | None = None) -> None:
        """End some bakes, or all of them."""
        self.bakes.stop(names)

    def recovery(self, state: CellState, outcome: BakeOutcome) -> Recovery | None:
        """Return the cache that lost a layer and was not left out yet."""
        if any(map(lost_a_layer, outcome.failures)) and Recovery.NO_BUILD_CACHE not in state.recoveries:
            return Recovery.NO_BUILD_CACHE
        reads = self.imports and Recovery.NO_LAYER_CACHE not in state.recoveries
        return Recovery.NO_LAYER_CACHE if reads and all(map(may_be_the_cache, outcome.failures)) else None

    def stage_keys(self, task: CellTask) -> Mapping[str, str]:
        """Return stage → digest of its inputs."""
        return stage_keys(self.plan, self._lineage, task)

    def error(self, task: CellTask, outcome: BakeOutcome) -> BakeryError:
        """Return the error of a failed bake: that of the engine if it does not answer any more."""
        if outcome.failures and not self.engine.nodes and all(map(went_away, outcome.failures)):
            try:
                Engine(self.engine.environment).info()
            except EngineError as error:
                hint = "start it again, then continue with --resume"
                return EngineError(
                    f"{task.name}: the engine is gone: {error.message}", hint=hint, details=error.details
                )
        return failure(outcome, self.lock_name, task.name, self.plan.reference)
