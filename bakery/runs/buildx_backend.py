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
from bakery.emit.cache import cache_attributes
from bakery.engine.client import Engine
from bakery.plan.model import Plan
from bakery.plan.stage_digests import Lineage
from bakery.runs.buildx.bake import BakeRequest, Bakes
from bakery.runs.buildx.bake_outcome import BakeFailure, BakeOutcome
from bakery.runs.buildx.failures import lost_a_layer, may_be_the_cache, went_away
from bakery.runs.cell_tasks import CellState, CellTask, stage_keys
from bakery.runs.context import BakeContext
from bakery.runs.journal import Result
from bakery.runs.lock.failure import failure
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
            refuse_links(self.root, self.root / values["CACHE_DIR"], below=True)
            make_own_folder(self.root)

    def spared(self, request: BakeRequest) -> BakeRequest:
        """Return a request that does not write the caches that already have what it would write."""
        if request.no_cache or request.pull:
            return request
        fresh = (
            name
            for name, (folder, key) in self._cache_folders(request).items()
            if _mark(folder) == _content(folder, key)
        )
        unchanged = (f"{name}.cache-to=" for name in fresh)
        return replace(request, overrides=(*request.overrides, *unchanged))

    def note(self, request: BakeRequest, outcome: BakeOutcome) -> None:
        """Mark the caches that a successful bake wrote.

        The mark is removed if commands ran nevertheless: the target of a tag or an index changed, and the next run
        writes. A mark that cannot be written only means that the cache is written once more.
        """
        for name, (folder, key) in self._cache_folders(request).items():
            was_spared = f"{name}.cache-to=" in request.overrides
            with contextlib.suppress(OSError):
                if outcome.cache or (was_spared and outcome.ran):
                    (folder / MARK).unlink(missing_ok=True)
                elif not was_spared:
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
    return [_merged(batch) if len(batch) > 1 else batch[0] for batch in batches]


def _merged(requests: Sequence[BakeRequest]) -> BakeRequest:
    return replace(
        requests[0],
        targets=tuple(target for request in requests for target in request.targets),
        beside=tuple(target for request in requests for target in request.beside),
        overrides=tuple(dict.fromkeys(override for request in requests for override in request.overrides)),
        defer_errors=False,
        only_cached=True,
    )


STILL_S = 600.0
"""Seconds without progress until a layer cache counts as lost; BuildKit reports none while it unpacks a large layer."""


@dataclass(slots=True)
class BuildxBackend:
    """A backend with buildx; ``common``: the request of all tasks; ``imports``: bakes read a layer cache."""

    context: BakeContext
    bakes: Bakes
    caches: LocalCaches
    common: BakeRequest
    imports: bool
    _lineage: Lineage = field(init=False)
    _together: list[BakeRequest] = field(default_factory=list, init=False)
    """The requests of cells whose steps should be cached, until `turn` starts one bake for them."""

    def __post_init__(self) -> None:
        self._lineage = Lineage(self.context.plan)

    def start(self, task: CellTask, state: CellState, *, cached: bool) -> None:
        """Start one bake of a task, or of all that are ``cached``; the export of an earlier try is removed."""
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
        if cached:
            self._together.append(request)
        else:
            self.bakes.start(request)

    def _start_together(self) -> None:
        """Start one bake for all requests of cached cells: a client costs more than the steps that it asks for."""
        for request in together(self._together):
            self.bakes.start(request)
        self._together = []

    def turn(self) -> list[tuple[str, BakeOutcome]]:
        """Return the tasks whose bakes ended."""
        self._start_together()
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

    def recover(self, state: CellState, outcome: BakeOutcome) -> str:
        """Stop using caches that lost a layer, each once."""
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

    def error(self, task: CellTask, outcome: BakeOutcome) -> BakeryError:
        """Return the error of a failed bake: that of the engine if it does not answer any more."""
        if outcome.failures and not self.context.nodes and all(map(went_away, outcome.failures)):
            try:
                Engine(self.context.engine.environment).info()
            except EngineError as error:
                hint = "start it again, then continue with --resume"
                return EngineError(
                    f"{task.name}: the engine is gone: {error.message}", hint=hint, details=error.details
                )
        return failure(outcome, self.context.lock_name)
