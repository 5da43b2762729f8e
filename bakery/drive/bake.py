"""Runs one ``docker buildx bake`` and tells what it came to."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bakery.drive.argv import bake_argv
from bakery.drive.engine import Engine
from bakery.drive.entitle import Allowed
from bakery.drive.hints import hint
from bakery.drive.listener import Listener
from bakery.drive.logfiles import LogFiles
from bakery.drive.mask import Mask, MaskedStream
from bakery.drive.outcome import BakeFailure, BakeOutcome, Failure, Result, TargetOutcome
from bakery.drive.process import Ended, Stopped, run
from bakery.drive.progress import Progress, Step, TargetState
from bakery.drive.rawjson import Warned
from bakery.errors import InterruptedBake, OutputError, PlanError
from bakery.names import DOCKER_VARIABLE
from bakery.plan import Json, Target

SHOWN = 30
"""Lines of a failing step's log that a failure shows."""

_DEFAULTS = {"BUILDX_METADATA_PROVENANCE": "min", "DOCKER_CLI_HINTS": "false"}
"""What the environment may set otherwise. Without provenance in the metadata nobody knows the digests of base images."""


@dataclass(frozen=True, slots=True)
class BakeRequest:
    """One bake.

    Attributes:
        root: the directory that buildx runs in.
        bakefile: the bake file, relative to ``root`` or absolute.
        targets: what to bake, at least one.
        environment: the client's whole environment (DOCKER_HOST, DOCKER_CONFIG, PATH, …).
        variables: the plan's variables; they win over the environment, so that a stray variable there cannot
            change the plan.
        overrides: values of ``--set``.
        builder: the builder's name, None for the current one.
        state: the run's folder: ``logs/``, ``stage/`` and ``metadata.json`` are made in it.
        timeout_s: seconds that the bake may take, None for any.
        reads: files outside of ``root`` that steps may read (secrets, local caches).
        writes: folders outside of ``root`` and ``state`` that exports may write.
        grants: further entitlements, in buildx's words.
        record: keep the whole stream in ``progress.jsonl``.
        mask: hides secrets in the stream, whoever looks at it.
    """

    root: Path
    bakefile: Path
    targets: tuple[Target, ...]
    environment: Mapping[str, str]
    variables: Mapping[str, str]
    state: Path
    overrides: tuple[str, ...] = ()
    builder: str | None = None
    no_cache: bool = False
    pull: bool = False
    timeout_s: float | None = None
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    grants: tuple[str, ...] = ()
    record: bool = False
    mask: Mask = field(default_factory=lambda: Mask({}))

    @property
    def logs(self) -> Path:
        """The folder of the targets' logs."""
        return self.state / "logs"

    @property
    def stage(self) -> Path:
        """The folder that DEST names: each wheel target exports to the folder of its cell in it."""
        return self.state / "stage"

    @property
    def metadata(self) -> Path:
        """What buildx says of the results."""
        return self.state / "metadata.json"


def bake(request: BakeRequest, listener: Listener) -> BakeOutcome:
    """Bake and wait for the end; signals are caught meanwhile if this is the main thread.

    Returns:
        What all targets came to, all of them done.

    Raises:
        BakeFailure: a target failed, or the time was over.
        InterruptedBake: SIGINT, SIGTERM or SIGHUP ended the bake.
        EngineError: docker cannot be started.
        PlanError: an override or a variable asks for what is not allowed.
        OutputError: the run's folder cannot be written.
    """
    argv = _argv(request)
    _prepare(request)
    progress = Progress([target.name for target in request.targets])
    masked = MaskedStream(request.mask)
    began = time.monotonic()
    with LogFiles(request.logs) as logs:
        listener.start(progress)
        try:
            ended = _run(request, argv, masked, _Watch(progress, logs, listener))
        finally:
            listener.finish()
        if ended.stopped is Stopped.SIGNAL:
            name = signal.Signals(ended.signal).name
            raise InterruptedBake(f"interrupted by {name}: the build was ended", hint=f"logs: {request.logs}")
        outcome = _outcome(request, progress, logs, ended, time.monotonic() - began)
        outcome = replace(outcome, printed=tuple(masked.told))
    if outcome.failures:
        raise BakeFailure(outcome)
    return outcome


def _argv(request: BakeRequest) -> list[str]:
    _check_variables(request.variables)
    allowed = Allowed(request.root, request.reads, (*request.writes, request.state), request.grants)
    allowed.require(request.overrides)
    return bake_argv(
        Engine(request.environment).call(),
        bakefile=request.bakefile,
        targets=[target.name for target in request.targets],
        metadata=request.metadata.absolute(),
        overrides=request.overrides,
        builder=request.builder,
        no_cache=request.no_cache,
        pull=request.pull,
        flags=allowed.flags(),
    )


def _check_variables(names: Iterable[str]) -> None:
    for name in names:
        if DOCKER_VARIABLE.match(name):
            raise PlanError(f"variable {name} would change how docker works", hint="give it another name")


def _environment(request: BakeRequest) -> dict[str, str]:
    return {**_DEFAULTS, **request.environment, **request.variables, **_named(request)}


def _named(request: BakeRequest) -> dict[str, str]:
    """Return what lets buildx call the context by a plain name.

    buildx sends the name of the context's folder in a gRPC header, which is ASCII (build/opt.go, SharedKey), and Go
    takes the working directory's name from PWD where that leads there.
    """
    name = request.root.resolve().name
    if name.isascii() and name.isprintable():
        return {}
    link = (request.state / "project").absolute()
    link.unlink(missing_ok=True)
    link.symlink_to(request.root.resolve())
    return {"PWD": str(link)}


def _prepare(request: BakeRequest) -> None:
    """Make the run's folders; what comes out of containers is for this user's eyes until it is published."""
    try:
        for folder in (request.logs, request.stage):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        request.metadata.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {request.state}: {error}") from error


def _run(request: BakeRequest, argv: Sequence[str], masked: MaskedStream, watch: _Watch) -> Ended:
    record = (request.state / "progress.jsonl").open("ab") if request.record else None

    def line(raw: bytes) -> None:
        take(masked.feed(raw))

    def take(lines: Iterable[bytes]) -> None:
        for raw in lines:
            if record:
                record.write(raw)
            watch.line(raw)

    try:
        return run(
            argv,
            cwd=request.root,
            environment=_environment(request),
            line=line,
            tick=watch.listener.tick,
            timeout_s=request.timeout_s,
        )
    finally:
        take(masked.close())
        watch.logs.write(watch.progress.close())
        if record:
            record.close()


@dataclass(frozen=True, slots=True)
class _Watch:
    """Who is told of the stream."""

    progress: Progress
    logs: LogFiles
    listener: Listener

    def line(self, raw: bytes) -> None:
        events = self.progress.feed(raw)
        self.logs.write(events)
        self.listener.line(raw, events)


def _outcome(request: BakeRequest, progress: Progress, logs: LogFiles, ended: Ended, seconds: float) -> BakeOutcome:
    failures = _failures(request, progress, logs, ended)
    failed = {name for failure in failures for name in failure.targets}
    metadata = _metadata(request.metadata)
    targets = {
        name: _target(state, _result(state, ended.code == 0, failed), logs, metadata.get(name), progress)
        for name, state in progress.targets.items()
    }
    own = tuple(Warned("", text.removeprefix("WARNING: ")) for text in progress.texts if text.startswith("WARNING: "))
    return BakeOutcome(targets, seconds, (*progress.warnings, *own), failures)


def _result(state: TargetState, success: bool, failed: set[str]) -> Result:
    """A sibling of a failed target is done only if the stream proves that its export came to its end."""
    if success:
        return Result.DONE
    if state.name in failed:
        return Result.FAILED
    return Result.DONE if state.exported else Result.CANCELED


def _target(state: TargetState, result: Result, logs: LogFiles, metadata: Json, progress: Progress) -> TargetOutcome:
    return TargetOutcome(
        name=state.name,
        result=result,
        seconds=state.elapsed(progress.clock()),
        steps=state.total,
        cached=state.cached,
        log=logs.path(state.name),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def _failures(request: BakeRequest, progress: Progress, logs: LogFiles, ended: Ended) -> tuple[Failure, ...]:
    if ended.stopped is Stopped.TIMEOUT:
        return (_late(request, progress, logs),)
    if ended.code == 0:
        return ()
    blamed = progress.blamed()
    steps = sorted(progress.failed_steps(), key=lambda step: blamed not in step.targets)
    found = [_failure(step, progress, logs) for step in steps]
    if not found or (blamed and not any(blamed in failure.targets for failure in found)):
        found.insert(0, _unexplained(progress, logs, blamed, ended))
    return tuple(found)


def _failure(step: Step, progress: Progress, logs: LogFiles) -> Failure:
    tail = tuple(step.output.tail)[-SHOWN:]
    title = step.label.title
    targets = tuple(step.targets)
    log = logs.path(targets[0])
    # What the step printed says more than BuildKit, which knows only its exit code; without output it is all.
    shown = tail or tuple(progress.texts[-SHOWN:])
    advice = hint([*reversed(step.output.tail), step.error], title)
    return Failure(targets, title, step.error, shown, log if log.exists() else None, advice)


def _unexplained(progress: Progress, logs: LogFiles, blamed: str, ended: Ended) -> Failure:
    """Return a failure of buildx itself: no step has an error (the bake file, the engine, the connection)."""
    errors = [text.removeprefix("ERROR: ") for text in progress.texts if text.startswith("ERROR: ")]
    error = errors[-1] if errors else f"docker buildx bake ended with exit code {ended.code}"
    log = logs.path(blamed) if blamed else None
    targets = (blamed,) if blamed else ()
    texts = tuple(progress.texts[-SHOWN:])
    return Failure(targets, "", error, texts, log if log and log.exists() else None, hint([error, *texts]))


def _late(request: BakeRequest, progress: Progress, logs: LogFiles) -> Failure:
    late = [state for state in progress.targets.values() if not state.exported]
    step = late[0].current if late else None
    return Failure(
        targets=tuple(state.name for state in late),
        step=step.label.title if step else "",
        error=f"not done within {request.timeout_s:g} s",
        tail=tuple(step.output.tail)[-SHOWN:] if step else (),
        log=logs.path(late[0].name) if late else None,
        hint="allow more time, or bake again: finished steps are cached",
    )


def _metadata(path: Path) -> dict[str, Json]:
    try:
        document: Json = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
