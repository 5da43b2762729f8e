"""Runs the works of one plan: begins what is due, finishes what is baked, tries again what may go well, and notes it all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from bakery.audit.result_cache import AuditResult
from bakery.build.buildx.bake import BakeRequest, Bakes, Baking
from bakery.build.buildx.listener import Listener
from bakery.build.buildx.log_files import LogFiles
from bakery.build.buildx.outcome import BakeFailure, BakeOutcome, Failure, Result
from bakery.build.buildx.progress import Board
from bakery.build.buildx.retryable import is_transient, lost_a_layer, may_be_the_cache, went_away
from bakery.build.cell_tasks import Work
from bakery.build.finish import Finisher
from bakery.build.local_layer_cache import LocalCaches
from bakery.build.processes import Children, Signals
from bakery.build.run_folders import remove_tree
from bakery.build.scheduler import Item, Schedule, State, Try, delay
from bakery.core.durations import duration
from bakery.core.errors import BakeryError, EngineError, InterruptedBake, OutputError
from bakery.core.names import Kind
from bakery.engine.memory_peaks import Peaks
from bakery.engine.nodes import Nodes, Watch
from bakery.plan.values import Json

STILL_S = 600.0
"""How long a layer cache may keep a bake from moving. A layer of many gigabytes is unpacked without a word, too."""

FINISHERS = 4
"""Cells that are audited at once."""


@dataclass(slots=True)
class Told:
    """What became of a cell.

    Attributes:
        outcome: of its last bake; None when it was never begun.
        seconds: of all its tries.
        wheels: what was published.
        error: why it failed; None when it did not.
        node: where it was baked last; empty on the one engine.
        left: nodes that went away while they baked it.
        cache: what went wrong with its layer cache.
        uncached: it is baked without what a layer cache has.
        anew: it is baked without the engine's own build cache, too.
        why: why it was not done, where nothing of its own failed.
        stopped: it needs a step that failed elsewhere, which ``why`` names.
    """

    result: Result = Result.CANCELED
    outcome: BakeOutcome | None = None
    tries: int = 0
    seconds: float = 0.0
    wheels: tuple[AuditResult, ...] = ()
    error: BakeryError | None = None
    why: str = ""
    stopped: bool = False
    node: str = ""
    left: tuple[str, ...] = ()
    cache: tuple[str, ...] = ()
    uncached: bool = False
    anew: bool = False


@dataclass(slots=True)
class Runner:
    """One run over cells.

    Attributes:
        request: returns the request of a cell's bake on a node; of no name on the one engine.
        args: cell → its build arguments.
        groups: cell → the cells that are finished together with it.
        made_of: returns stage → digest of a cell's work; stages of the same digest have the same steps.
        error: returns what a failed bake is to be reported as.
        caches: the local layer caches.
        deadline: local clock when the time for all is over, None for never.
        peaks: looks at what memory cells need, None where that cannot be seen.
        signals: those that arrived; the first ends the run.
        nodes: what cells are spread over; None for the one engine.
        imports: cells are baked with what a layer cache has.
    """

    works: Mapping[str, Work]
    args: Mapping[str, Mapping[str, str]]
    groups: Mapping[str, Sequence[str]]
    schedule: Schedule
    finisher: Finisher
    request: Callable[[Work, str], BakeRequest]
    made_of: Callable[[Work], Mapping[str, str]]
    error: Callable[[BakeOutcome], BakeryError]
    caches: LocalCaches
    say: Callable[[str], None]
    signals: Signals
    deadline: float | None = None
    peaks: Peaks | None = None
    nodes: Nodes | None = None
    imports: bool = False
    told: dict[str, Told] = field(init=False)
    late: bool = field(default=False, init=False)
    _broken: dict[tuple[str, str, str], str] = field(default_factory=dict, init=False)
    _finishing: dict[Future[tuple[AuditResult, ...]], tuple[str, ...]] = field(default_factory=dict, init=False)
    _doubtful: list[tuple[str, BakeOutcome]] = field(default_factory=list, init=False)
    _watch: Watch | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.told = {name: Told() for name in self.works}
        self._watch = Watch(self.nodes.ask) if self.nodes else None

    def run(self, board: Board, logs: LogFiles, listener: Listener) -> None:
        """Run to the end; ``told`` then knows of every cell.

        Raises:
            BakeryError: what ends all cells: no docker, a log that cannot be written.
        """
        with ThreadPoolExecutor(FINISHERS) as pool, Children(self.signals) as children:
            bakes = Bakes(children, logs, board, listener)
            while not (self.schedule.over and not self._finishing):
                self._look_at_the_clock(bakes)
                self._look_at_the_nodes(bakes)
                for item in self.schedule.due(time.monotonic()):
                    self._begin(item, bakes)
                if self.peaks:
                    self.peaks.look({name: self.args[name] for name in self._running()})
                for baking, outcome in bakes.turn():
                    self._ended(baking, outcome, pool, bakes)
                for future in [future for future in self._finishing if future.done()]:
                    self._finished(future, bakes)
        if self._watch:
            self._watch.end()
        self._explain()

    def _running(self) -> list[str]:
        return [name for name in self.works if self.schedule.state(name) is State.RUNNING]

    def _look_at_the_clock(self, bakes: Bakes) -> None:
        if self.signals.arrived:
            self.schedule.stop()
        elif not self.late and self.deadline is not None and time.monotonic() >= self.deadline:
            self.late = True
            self.schedule.stop()
            bakes.stop()

    def _look_at_the_nodes(self, bakes: Bakes) -> None:
        """Go on elsewhere with what a node had that is gone."""
        if not (self._watch and self.nodes):
            return
        busy = {self.schedule.seat(name) for name in self._running()}
        for node, why in self._watch.turn(busy, time.monotonic()).items():
            self.nodes.lost[node] = why
            cells = self.schedule.on(node)
            self.say(f"node {node} is gone: {why}; elsewhere: {', '.join(cells) or 'nothing'}")
            self.schedule.lose(node)
            bakes.stop_cells(cells)
        for name, outcome in [item for item in self._doubtful if not self._watch.doubts(self.schedule.seat(item[0]))]:
            self._doubtful.remove((name, outcome))
            self._failed(name, outcome, bakes)
        for name in self.schedule.strand():
            platform = self.works[name].cell.platform
            self._fail(name, EngineError(f"no node for {platform} is left", hint="start one, then --resume"), bakes)

    def _begin(self, item: Item, bakes: Bakes) -> None:
        self.told[item.name].node = self.schedule.seat(item.name)
        request = self.request(self.works[item.name], self.told[item.name].node)
        still_s = STILL_S if self.imports else None
        request = replace(request, no_cache=request.no_cache or self.told[item.name].anew, still_s=still_s)
        if self.told[item.name].uncached:
            own = (f"{target.name}.cache-from=" for target in (*request.targets, *request.beside))
            request = replace(request, overrides=(*request.overrides, *own))
        else:
            request = self.caches.spared(request)
        # What an earlier try left.
        remove_tree(request.stage / item.name)
        remove_tree(request.stage / "materials" / item.name)
        bakes.start(request)

    def _ended(self, baking: Baking, outcome: BakeOutcome, pool: ThreadPoolExecutor, bakes: Bakes) -> None:
        name = baking.request.targets[0].cell.id
        told = self.told[name]
        told.outcome = outcome
        told.tries = self.schedule.tries(name)
        told.seconds += outcome.seconds
        for text in outcome.cache:
            if text not in told.cache:
                told.cache = (*told.cache, text)
                self.say(f"{name}: layer cache: {text}")
        if all(target.result is Result.DONE for target in outcome.targets.values()):
            self.caches.note(baking.request, outcome)
            self.schedule.ended(name, Try.PASSED, time.monotonic())
            self._finish_when_all_passed(name, pool)
            return
        if self._watch and outcome.failures and all(went_away(failure) for failure in outcome.failures):
            self._watch.doubt(told.node)
            self._doubtful.append((name, outcome))
        else:
            self._failed(name, outcome, bakes)

    def _may_go_without_cache(self, told: Told, outcome: BakeOutcome) -> bool:
        """Whether a layer that was promised and could not be had may be all that failed; asked once for each cell."""
        possible = self.imports and not told.uncached and not self.schedule.stopped
        return possible and bool(outcome.failures) and all(map(may_be_the_cache, outcome.failures))

    def _failed(self, name: str, outcome: BakeOutcome, bakes: Bakes) -> None:
        told = self.told[name]
        if self.nodes and told.node in self.nodes.lost and all(map(is_transient, outcome.failures)):
            told.left = (*told.left, told.node)
            self.schedule.ended(name, Try.LOST, time.monotonic())
            return
        if any(map(lost_a_layer, outcome.failures)) and not (told.anew or self.schedule.stopped):
            told.anew = True
            self.say(f"{name}: {BakeFailure(outcome).message}; again without the engine's build cache")
            self.schedule.ended(name, Try.LOST, time.monotonic())
            return
        if self._may_go_without_cache(told, outcome):
            told.uncached = True
            told.cache = (*told.cache, BakeFailure(outcome).message)
            self.say(f"{name}: {BakeFailure(outcome).message}; again without what the layer cache has")
            self.schedule.ended(name, Try.LOST, time.monotonic())
            return
        again = bool(outcome.failures) and all(is_transient(failure) for failure in outcome.failures)
        self.schedule.ended(name, Try.AGAIN if again else Try.FAILED, time.monotonic())
        if self.schedule.state(name) is State.WAITING:
            wait = duration(delay(told.tries))
            self.say(f"{name}: {BakeFailure(outcome).message}; try {told.tries + 1} in {wait}")
        elif outcome.failures and not self._stopped_by_another(name, outcome):
            self._fail(name, self.error(outcome), bakes)
            self._stop_who_shares(name, outcome)

    def _steps(self, name: str, failures: Iterable[Failure]) -> list[tuple[str, str, str]]:
        """Return the steps that failed, each with the digest of its stage as the cell has it; none for other failures."""
        digests = self.made_of(self.works[name])
        return [(item.stage, digests[item.stage], item.step) for item in failures if item.stage in digests]

    def _stopped_by_another(self, name: str, outcome: BakeOutcome) -> bool:
        """Whether all that failed failed in another cell before: BuildKit ran it once for both, or would again."""
        steps = self._steps(name, outcome.failures)
        if len(steps) < len(outcome.failures) or not all(step in self._broken for step in steps):
            return False
        self._stop_by(name, steps[0])
        return True

    def _stop_who_shares(self, name: str, outcome: BakeOutcome) -> None:
        """A step that failed would fail for every other cell that needs it, too: what waits does not begin."""
        steps = self._steps(name, outcome.failures)
        self._broken.update(dict.fromkeys(steps, name))
        for other, work in self.works.items():
            if self.schedule.state(other) is State.WAITING:
                stages = self.made_of(work)
                if step := next((step for step in steps if stages.get(step[0]) == step[1]), None):
                    self.schedule.skip(other)
                    self._stop_by(other, step)

    def _stop_by(self, name: str, step: tuple[str, str, str]) -> None:
        told = self.told[name]
        told.stopped, told.why = True, f"stopped by {self._broken[step]}: {step[2]} failed, which both need"
        # `--failed` takes it up with the one that failed.
        self.finisher.failed(self.works[name], self.peaks.mb.get(name, 0) if self.peaks else 0)

    def _finish_when_all_passed(self, name: str, pool: ThreadPoolExecutor) -> None:
        members = tuple(self.groups[name])
        if all(self.schedule.state(member) is State.PASSED for member in members):
            works = [self.works[member] for member in members]
            peaks = {member: self.peaks.mb.get(member, 0) for member in members} if self.peaks else {}
            self._finishing[pool.submit(self.finisher.finish, works, peaks, self._metadata(works))] = members

    def _metadata(self, works: Sequence[Work]) -> Mapping[str, Json]:
        """Return what buildx says of the target that built the wheel; nothing where none did."""
        targets = (target for work in works for target in work.targets if target.kind is Kind.WHEEL)
        target = next(targets, None)
        outcome = self.told[target.cell.id].outcome if target else None
        return outcome.targets[target.name].metadata if target and outcome else {}

    def _finished(self, future: Future[tuple[AuditResult, ...]], bakes: Bakes) -> None:
        members = self._finishing.pop(future)
        builder = self.works[members[0]].cell.built_by
        try:
            wheels = future.result()
        except InterruptedBake:
            return
        except BakeryError as error:
            self._fail(builder if builder in members else members[0], error, bakes)
            if isinstance(error, OutputError):
                # No other wheel could be published either.
                self._stop(bakes)
            return
        for member in members:
            self.told[member].result = Result.DONE
        if wheels:
            self.told[builder].wheels = wheels

    def _fail(self, name: str, error: BakeryError, bakes: Bakes) -> None:
        told = self.told[name]
        told.result, told.error = Result.FAILED, error
        self.finisher.failed(self.works[name], self.peaks.mb.get(name, 0) if self.peaks else 0)
        if not self.schedule.limits.keep_going:
            self._stop(bakes)

    def _stop(self, bakes: Bakes) -> None:
        self.schedule.stop()
        bakes.stop()

    def _explain(self) -> None:
        """Say of each cell that was not done why, where nothing of its own failed."""
        for name, told in self.told.items():
            if told.result is Result.CANCELED and not told.stopped:
                told.why = self._why(name)

    def _why(self, name: str) -> str:
        failed = [member for member in self.groups[name] if self.told[member].error or self.told[member].stopped]
        if failed:
            return f"{failed[0]} failed, and they share a wheel"
        if self.signals.arrived:
            return f"interrupted by {self.signals.name}"
        return "the time for the whole run was over" if self.late else "ended, since another cell failed"
