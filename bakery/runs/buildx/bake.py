"""Runs ``docker buildx bake``, and writes one log for each target."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from bakery.core.environment import for_tool
from bakery.core.errors import OutputError, PlanError
from bakery.core.names import DOCKER_VARIABLE, CacheBackend
from bakery.core.target_kinds import CACHE_SCOPE
from bakery.engine.client import EXECUTION, Engine
from bakery.engine.image_digests import PROVENANCE
from bakery.plan.cells import Target
from bakery.plan.model import Plan
from bakery.plan.values import Json
from bakery.runs.buildx import gha_cache_env
from bakery.runs.buildx.bake_outcome import LATE, BakeOutcome, Failure, TargetOutcome
from bakery.runs.buildx.board import Board, Listener, times_of
from bakery.runs.buildx.entitlements import Allowed
from bakery.runs.buildx.failures import excerpt, hint
from bakery.runs.buildx.missing import of_cell
from bakery.runs.buildx.progress import Event, LogLines, Progress, Step, StepFinished, StepStarted, TargetState
from bakery.runs.buildx.step_names import StepName, step_names
from bakery.runs.cell_profile import save
from bakery.runs.journal import Result
from bakery.runs.processes import Child, Children, Ended, Signals, Stopped
from bakery.runs.secrets.mask import Mask, MaskedStream
from wheel_audit.environment import CleanEnvironment
from wheel_audit.readers import json_of

MAX_SHOWN_LINES = 30
MAX_MESSAGE_LINES = 15
_WITHOUT_GIT = {"BUILDX_GIT_INFO": "false", "BUILDX_GIT_LABELS": "false"}
"""buildx asks git about the context, which may run programs that the context's own .git/config names."""


@dataclass(frozen=True, slots=True)
class BakeRequest:
    """One bake, of one cell or of several whose steps should be cached.

    Attributes:
        bakefile: relative to ``root``, which is the working directory, or absolute.
        beside: further targets, without log, row and outcome.
        environment: the client's whole environment (DOCKER_HOST, DOCKER_CONFIG, PATH, …).
        variables: the plan's variables; they override the environment.
        state: the run's folder, which all bakes of a run share.
        scope: the prefix of the ids of all cache mounts, from `cache_scope`.
        still_s: a bake in which nothing moves and no command runs is ended after so many seconds: BuildKit asks a layer
            cache that does not answer again and again.
        reads: files outside ``root`` that steps may read (secrets, local caches).
        writes: folders outside ``root`` and ``state`` that exports may write.
        only_cached: the bake is given up if a command runs that is not cached.
        defer_errors: a failed target does not cancel the others; not every buildx can.
        plan: advice for failures names lines of its recipe.
    """

    root: Path
    bakefile: Path
    targets: tuple[Target, ...]
    environment: Mapping[str, str]
    variables: Mapping[str, str]
    state: Path
    scope: str
    overrides: tuple[str, ...] = ()
    beside: tuple[Target, ...] = ()
    builder: str | None = None
    no_cache: bool = False
    pull: bool = False
    timeout_s: float | None = None
    still_s: float | None = None
    only_cached: bool = False
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    defer_errors: bool = False
    mask: Mask = field(default_factory=lambda: Mask({}))
    plan: Plan | None = None

    @property
    def targets_of_cells(self) -> dict[str, list[str]]:
        """Cell → the names of its targets."""
        names: dict[str, list[str]] = {}
        for target in self.targets:
            names.setdefault(target.cell.id, []).append(target.name)
        return names

    @property
    def only_cell(self) -> str:
        """The id of its cell; empty for several: the lines of such a bake belong to none of them."""
        cells = self.targets_of_cells
        return next(iter(cells)) if len(cells) == 1 else ""

    @property
    def logs(self) -> Path:
        """The folder of the targets' logs."""
        return self.state / "logs"

    @property
    def stage(self) -> Path:
        """The folder that DEST names; each wheel target exports to the folder of its cell in it."""
        return self.state / "stage"

    @property
    def metadata(self) -> Path:
        """The file with buildx's metadata of the results."""
        return self.state / "metadata" / f"{self.targets[0].name}.json"


@dataclass(slots=True, eq=False)
class Baking:
    """A running bake."""

    request: BakeRequest
    progress: Progress
    stream: MaskedStream

    def hangs(self, now: float) -> bool:
        """Whether nothing has moved for too long, by the local clock."""
        limit = self.request.still_s
        return limit is not None and now - self.progress.moved >= limit and not self.progress.may_be_still

    @property
    def is_futile(self) -> bool:
        """Whether it was started for cached steps only, and a command runs."""
        return self.request.only_cached and self.progress.runs_command


@contextmanager
def open_bakes(board: Board, logs: Path, signals: Signals, listener: Listener) -> Iterator[Bakes]:
    """Provide `Bakes` that write logs to a folder; the listener is started, and finished at the end."""
    with LogFiles(logs) as log_files, Children(signals) as children:
        listener.start(board)
        try:
            yield Bakes(children, log_files, board, listener)
        finally:
            listener.finish()


class Bakes:
    """Runs several bakes; displays, logs and results are updated in the thread that calls `turn`."""

    def __init__(self, children: Children, logs: LogFiles, board: Board, listener: Listener) -> None:
        self._children = children
        self._logs = logs
        self._board = board
        self._listener = listener
        self._running: dict[Child, Baking] = {}

    def start(self, request: BakeRequest) -> Baking:
        """Start a bake.

        Raises EngineError if docker cannot be started, PlanError if an override or a variable is not allowed, and
        OutputError if the run's folder cannot be written.
        """
        argv = checked_argv(request)
        _prepare(request)
        progress = Progress(
            [target.name for target in request.targets],
            beside=[item.name for item in request.beside],
            name=_step_names(request),
        )
        stream = MaskedStream(request.mask)
        cell = request.only_cell
        self._board.adopt(progress)
        child = self._children.start(
            argv,
            cwd=request.root,
            environment=bake_environment(request),
            line=lambda raw: self._lines(progress, stream.feed(raw), cell),
            timeout_s=request.timeout_s,
        )
        self._running[child] = Baking(request, progress, stream)
        return self._running[child]

    def turn(self) -> list[tuple[Baking, BakeOutcome]]:
        """Process output for a tenth of a second at most; return the bakes that ended. Raises OutputError for a log."""
        over = self._children.turn()
        now = time.monotonic()
        for child, baking in self._running.items():
            if baking.hangs(now):
                child.stop(Stopped.STILL, now)
            elif baking.is_futile:
                child.stop(Stopped.UNWANTED, now)
        self._listener.tick()
        return [self._end(child, ended) for child, ended in over]

    def stop(self, cells: Collection[str] | None = None) -> None:
        """Ask the bakes of some cells to end, or all of them."""
        for child, baking in self._running.items():
            if cells is None or not baking.request.targets_of_cells.keys().isdisjoint(cells):
                child.stop(Stopped.UNWANTED, time.monotonic())

    def _lines(self, progress: Progress, lines: Iterable[bytes], cell: str) -> None:
        for raw in lines:
            events = progress.feed(raw)
            self._logs.write(events)
            self._listener.line(raw, events, cell)

    def _end(self, child: Child, ended: Ended) -> tuple[Baking, BakeOutcome]:
        baking = self._running.pop(child)
        self._lines(baking.progress, baking.stream.close(), baking.request.only_cell)
        self._logs.write(baking.progress.close(succeeded=ended.code == 0))
        if plan := baking.request.plan:
            for cell, names in baking.request.targets_of_cells.items():
                steps = [step for step in baking.progress.steps.values() if not step.targets.keys().isdisjoint(names)]
                save(baking.request.state, plan.recipe, cell, steps)
        return baking, _outcome(baking, self._logs, ended)


def _step_names(request: BakeRequest) -> StepName:
    """Return what names the steps of a bake: cells may have different toolkits."""
    names = {target.name: step_names(request.plan, target.cell) for target in request.targets}
    first = names[request.targets[0].name]
    return lambda label: names.get(label.target, first)(label)


def bake_argv(request: BakeRequest, call: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return the arguments of ``docker buildx bake``. A key of ``--set`` may come twice, unlike in python-on-whales.

    ``call`` comes from `Engine.call`; ``flags`` are added.
    """
    argv = [*call, "buildx", "bake", f"--file={request.bakefile}", "--progress=rawjson"]
    argv += [f"--metadata-file={request.metadata.absolute()}"]
    argv += [f"--builder={request.builder}"] if request.builder else []
    argv += ["--no-cache"] if request.no_cache else []
    argv += ["--pull"] if request.pull else []
    argv += [f"{EXECUTION}=defer-error"] if request.defer_errors else []
    # The last value wins: no override changes the scope of cache mounts.
    sets = (*request.overrides, f"*.args.{CACHE_SCOPE}={request.scope}")
    targets = (target.name for target in (*request.targets, *request.beside))
    return [*argv, *flags, *(f"--set={override}" for override in sets), *targets]


def checked_argv(request: BakeRequest) -> list[str]:
    """Return the same as `bake_argv`, for a request that is allowed. Raises PlanError or UsageError."""
    if name := next(filter(DOCKER_VARIABLE.match, request.variables), ""):
        raise PlanError(f"variable {name} would change how docker works", hint="give it another name")
    allowed = Allowed(request.root, request.reads, (*request.writes, request.state))
    allowed.require(request.overrides)
    return bake_argv(request, Engine(request.environment).call(), allowed.flags())


def bake_environment(request: BakeRequest) -> CleanEnvironment:
    """Return the environment variables of buildx for a request; those of GitHub's cache if the request uses that."""
    caches = [request.variables.get("CACHE"), *(text for text in request.overrides if ".cache-" in text)]
    keeps = gha_cache_env.NAMES if CacheBackend.GHA in str(caches) else ()
    environ = {"DOCKER_CLI_HINTS": "false", **request.environment}
    return for_tool(environ, {**request.variables, **_WITHOUT_GIT, **PROVENANCE, **_context_name(request)}, keeps)


def _context_name(request: BakeRequest) -> dict[str, str]:
    """Return variables that give the context a name of its own in each run.

    buildx sends the name of the context's folder (build/opt.go, SharedKey). BuildKit does not send a file again that has
    the path, size and time of one in an earlier context of this name, also if its content is another one or the folder is
    that of another project. The name is ASCII, as it is a gRPC header. Go takes the name of the working directory from PWD
    if that leads there.
    """
    state = request.state.absolute()
    link = state / f"project-{hashlib.sha256(os.fsencode(state)).hexdigest()[:16]}"
    # The bakes of a run share it.
    if not link.is_symlink():
        link.symlink_to(request.root.resolve())
    return {"PWD": str(link)}


def _prepare(request: BakeRequest) -> None:
    """Make the run's folders, which only this user can read: container output is not published yet."""
    try:
        for folder in (request.logs, request.stage, request.metadata.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        request.metadata.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {request.state}: {error}") from error


def _outcome(baking: Baking, logs: LogFiles, ended: Ended) -> BakeOutcome:
    request, progress = baking.request, baking.progress
    failures = _failures(request, progress, logs, ended)
    # A failure without targets (bake file, engine) is one of all targets.
    failed = {name for failure in failures for name in failure.targets or progress.targets}
    metadata = _metadata(request.metadata, request.mask)
    targets = {
        name: TargetOutcome(
            result=_result(state, ended.code == 0 or name in metadata, failed),
            seconds=state.elapsed(progress.clock()),
            steps=state.total,
            cached=state.cached,
            log=logs.path(name),
            metadata=of if isinstance(of := metadata.get(name), dict) else {},
            compiled=state.compiled,
        )
        for name, state in progress.targets.items()
    }
    return BakeOutcome(
        targets,
        failures,
        printed=tuple(sorted(baking.stream.printed)),
        cache=tuple(progress.cache_troubles()),
        ran=progress.ran,
        times=times_of(progress.targets.values()),
        given_up=request.only_cached and ended.code != 0,
    )


def _result(state: TargetState, success: bool, failed: set[str]) -> Result:
    """Without success of buildx, a target is done only if the stream shows that its export was complete."""
    if success:
        return Result.DONE
    if state.name in failed:
        return Result.FAILED
    return Result.DONE if state.exported else Result.CANCELED


def _failures(request: BakeRequest, progress: Progress, logs: LogFiles, ended: Ended) -> tuple[Failure, ...]:
    if ended.stopped is Stopped.TIMEOUT:
        advice = "allow more time, or bake again: finished steps are cached"
        return (_ended_early(progress, logs, f"{LATE}{request.timeout_s:g} s", advice),)
    if ended.stopped is Stopped.STILL:
        error = f"nothing moved for {request.still_s:g} s, and no command ran"
        advice = "a layer cache does not answer; once it does, or the engine was restarted, continue with --resume"
        return (_ended_early(progress, logs, error, advice),)
    if ended.code == 0 or ended.stopped:
        return ()
    blamed = progress.blamed()
    steps = sorted(progress.failed_steps(), key=lambda step: blamed not in step.targets)
    failures = [_failure(request, step, progress, logs) for step in steps]
    if not failures or (blamed and not any(blamed in failure.targets for failure in failures)):
        failures.insert(0, _unexplained(progress, logs, blamed, ended))
    return tuple(failures)


def _failure(request: BakeRequest, step: Step, progress: Progress, logs: LogFiles) -> Failure:
    tail = tuple(step.output.tail)[-MAX_SHOWN_LINES:]
    title = step.label.title
    targets = tuple(step.targets) or tuple(progress.targets)
    log = logs.path(targets[0])
    # BuildKit itself knows only the exit code of the step.
    shown = tail or tuple(progress.texts[-MAX_SHOWN_LINES:])
    recipe = of_cell(request.plan, request.targets[0].cell) if request.plan else None
    advice = hint([*step.output.tail, step.error], title, recipe)
    messages = excerpt(tuple(step.output.tail), MAX_MESSAGE_LINES)
    log_or_none = log if log.exists() else None
    label = step.label
    return Failure(
        targets, title, step.error, shown, log_or_none, advice, label.stage, step.work, messages, label.index
    )


def _unexplained(progress: Progress, logs: LogFiles, blamed: str, ended: Ended) -> Failure:
    """Return a failure of buildx itself (bake file, engine, connection): no step has an error."""
    errors = [text.removeprefix("ERROR: ") for text in progress.texts if text.startswith("ERROR: ")]
    how = f"was ended by {signal.Signals(-ended.code).name}" if ended.code < 0 else f"ended with exit code {ended.code}"
    error = errors[-1] if errors else f"docker buildx bake {how}"
    log = logs.path(blamed) if blamed else None
    targets = (blamed,) if blamed else ()
    texts = tuple(progress.texts[-MAX_SHOWN_LINES:])
    return Failure(targets, "", error, texts, log if log and log.exists() else None, hint([error, *texts]))


def _ended_early(progress: Progress, logs: LogFiles, error: str, advice: str) -> Failure:
    """Return the failure of a bake that bakery ended: unfinished targets, and the step that ran."""
    late = [state for state in progress.targets.values() if not state.exported]
    step = late[0].current if late else None
    return Failure(
        targets=tuple(state.name for state in late),
        step=step.label.title if step else "",
        error=error,
        tail=tuple(step.output.tail)[-MAX_SHOWN_LINES:] if step else (),
        log=logs.path(late[0].name) if late else None,
        hint=advice,
    )


def _metadata(path: Path, mask: Mask) -> dict[str, Json]:
    try:
        document: Json = json_of(mask.hide_in(path))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


OPEN = 64
"""Files that are open at once: a plan may have more targets than a process may open files."""


class LogFiles:
    """Writes ``<folder>/<target>.log``; a context manager that closes the files.

    The lines of each step follow a line ``# [compile 3/5] RUN make``, also if steps run in parallel.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: OrderedDict[str, TextIO] = OrderedDict()
        self._last: dict[str, str] = {}

    def __enter__(self) -> LogFiles:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def path(self, target: str) -> Path:
        """Return the log of a target."""
        return self.folder / f"{target}.log"

    def write(self, events: Iterable[Event]) -> None:
        """Write the lines of events. Raises OutputError if a log cannot be written (space, permissions)."""
        try:
            for event in events:
                self._write(event)
        except OSError as error:
            raise OutputError(f"cannot write the log: {error}", hint=f"free space for {self.folder}") from error

    def _write(self, event: Event) -> None:
        match event:
            case StepStarted(targets, title):
                self._lines(targets, title, ())
            case LogLines(targets, title, lines):
                self._lines(targets, title, lines)
            case StepFinished(targets, title, seconds, cached, error):
                end = error or ("CACHED" if cached else f"done in {seconds:.1f} s")
                self._lines(targets, title, (f"# {end}",))
            case _:
                return

    def _lines(self, targets: Iterable[str], title: str, lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        for target in targets:
            head = "" if self._last.get(target) == title else f"# {title}\n"
            self._last[target] = title
            self._file(target).write(head + text)

    def _file(self, target: str) -> TextIO:
        file = self._open.get(target)
        if file is None:
            if len(self._open) >= OPEN:
                self._open.popitem(last=False)[1].close()
            # Line buffered: the log is there when bakery is killed, and `tail -f` works.
            file = self.path(target).open("a", encoding="utf-8", errors="replace", buffering=1)
            self._open[target] = file
        self._open.move_to_end(target)
        return file
