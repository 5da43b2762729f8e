"""The rawjson stream → the state of every target, and events for displays and logs. No input or output.

Vertices are known by digest. One vertex serves several targets and then comes under several names, and its
logs come once: they are credited to every target that it serves, also to one that names it later.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from bakery.build.buildx import rawjson
from bakery.build.buildx.rawjson import Label, Output, Role, clean, parse

TAIL = 200
"""Lines of a step's output that are kept in memory."""

TEXTS = 500
"""Lines of buildx's own text that are kept in memory."""

_CANCELED = re.compile(r"context canceled(?:: context canceled)*\Z|code = Canceled desc = ")
_QUIET = (Role.INTERNAL, Role.CACHE)
"""What displays and logs do not show."""

_COMPILED = re.compile(r"bakery: ccache had (\d+) of (\d+) compilations")
"""What ``count-ccache`` prints."""

_NO_CACHE_YET = re.compile(r"not found|no such file or directory|could not read|cache not found", re.IGNORECASE)
"""How the first build is told that there is nothing to import."""
_TARGET_ERROR = re.compile(r"ERROR: target (\S+): ")


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step began."""

    targets: tuple[str, ...]
    title: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class StepFinished:
    """A step ended; ``seconds`` is by the engine's clock, ``error`` is empty when all went well.

    Bakes at once tell of a step that they share one by one; ``digest`` tells that it is the same.
    """

    targets: tuple[str, ...]
    title: str
    seconds: float
    cached: bool
    error: str
    canceled: bool
    digest: str = ""


@dataclass(frozen=True, slots=True)
class LogLines:
    """Lines that a step printed."""

    targets: tuple[str, ...]
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line that buildx itself wrote."""

    text: str


Event: TypeAlias = StepStarted | StepFinished | LogLines | TextLine


@dataclass(slots=True)
class Step:
    """A vertex over time.

    Attributes:
        label: its name without a target.
        targets: whom it serves, in the order they named it.
        seen_at: the local clock when it was first seen running.
        reported: seconds of the last `StepFinished`, None before the first.
        has_inputs: it stands on other steps. A layer of an imported cache is pulled and unpacked only once another step
            needs it; the vertex then begins again, without its inputs, and does not say that it is cached.
    """

    label: Label
    output: Output
    targets: dict[str, None] = field(default_factory=dict)
    started: float | None = None
    completed: float | None = None
    cached: bool = False
    error: str = ""
    seen_at: float | None = None
    reported: float | None = None
    has_inputs: bool = False

    @property
    def running(self) -> bool:
        """It has begun and not ended."""
        return self.started is not None and self.completed is None

    @property
    def canceled(self) -> bool:
        """It did not fail by itself: the build was ended while it ran."""
        return bool(self.error and _CANCELED.search(self.error))

    @property
    def failed(self) -> bool:
        """It failed by itself, and that matters: a cache that cannot be read or written does not."""
        return bool(self.error) and not self.canceled and self.label.role is not Role.CACHE

    @property
    def seconds(self) -> float:
        """How long it ran, by the engine's clock; 0 before it ended."""
        if self.started is None or self.completed is None:
            return 0.0
        return max(0.0, self.completed - self.started)


@dataclass(slots=True)
class TargetState:
    """One target, as displays show it.

    Attributes:
        current: the step that it runs now or ran last.
        started_at: local clock when its first step was seen running.
        finished_at: local clock when its result was exported or its step failed.
        last_line: the last thing that it printed.
        exported: its result left the engine; what comes later cannot take that away.
        failure: the step that failed by itself, the first if there are several.
    """

    name: str
    steps: dict[str, Step] = field(default_factory=dict)
    current: Step | None = None
    started_at: float | None = None
    finished_at: float | None = None
    last_line: str = ""
    exported: bool = False
    failure: Step | None = None

    @property
    def total(self) -> int:
        """Steps known so far."""
        return len(self.steps)

    @property
    def done(self) -> int:
        """Steps that ended well."""
        return sum(step.completed is not None and not step.error for step in self.steps.values())

    @property
    def cached(self) -> int:
        """Steps that were not run because their result was known."""
        return sum(step.cached for step in self.steps.values())

    @property
    def compiled(self) -> tuple[int, int] | None:
        """What its steps say of compiler caches: compilations, and how many a cache had."""
        lines = (line for step in self.steps.values() if not step.cached for line in step.output.tail)
        counts = [(int(match[2]), int(match[1])) for line in lines if (match := _COMPILED.fullmatch(line))]
        return (sum(all_ for all_, _ in counts), sum(had for _, had in counts)) if counts else None

    @property
    def error(self) -> str:
        """What its failed step says; empty when none failed by itself."""
        return self.failure.error if self.failure else ""

    def elapsed(self, now: float) -> float:
        """Return seconds since it began, to its end if it has one, else to ``now`` (local clock)."""
        if self.started_at is None:
            return 0.0
        return (self.finished_at if self.finished_at is not None else now) - self.started_at


class Board:
    """All targets of a run, whoever bakes them: what displays show.

    Attributes:
        targets: name → state, in the order given; of a target that is baked again, the newest.
    """

    def __init__(self, targets: Sequence[str]) -> None:
        self.targets = {name: TargetState(name) for name in targets}

    def adopt(self, progress: Progress) -> None:
        """Show the targets of a bake from now on."""
        self.targets.update(progress.targets)


class Progress:
    """The state of one bake.

    Attributes:
        targets: name → state, in the order given.
        warnings: what the Dockerfile front end warned of.
        moved: local clock when it last told of something new; bytes that were told before are nothing new.
        texts: the last lines that buildx itself wrote.

    What is baked ``beside`` the targets has no state; of a step that serves nothing else no event tells.
    """

    def __init__(
        self, targets: Sequence[str], clock: Callable[[], float] = time.monotonic, beside: Sequence[str] = ()
    ) -> None:
        self.beside = frozenset(beside)
        self.targets = {name: TargetState(name) for name in targets}
        self.warnings: list[rawjson.Warned] = []
        self.texts: list[str] = []
        self.moved = clock()
        self._amounts: dict[str, int] = {}
        self.steps: dict[str, Step] = {}
        self.clock = clock

    def feed(self, line: bytes) -> list[Event]:
        """Take one line of the stream; return what happened by it."""
        status = rawjson.decode(line)
        if (
            status.vertices
            or status.logs
            or status.text
            or any(self._amounts.get(k) != v for k, v in status.amounts.items())
        ):
            self.moved = self.clock()
            self._amounts |= status.amounts
        events: list[Event] = []
        for vertex in status.vertices:
            events += self._vertex(vertex)
        for log in status.logs:
            events += self._log(log)
        for warning in status.warnings:
            # Each target that shares a vertex or a line of the Dockerfile warns of it again.
            if not any((warning.short, warning.detail) == (other.short, other.detail) for other in self.warnings):
                self.warnings.append(warning)
        if status.text:
            text = clean(status.text.encode())
            self.texts = [*self.texts[-TEXTS:], text]
            events.append(TextLine(text))
        return events

    @property
    def ran(self) -> bool:
        """Whether a command was run; copies are left out: some of them BuildKit does again though it knows them."""
        commands = (step for step in self.steps.values() if step.label.text.startswith("RUN ") and step.has_inputs)
        return any(step.completed is not None and not step.cached for step in commands)

    @property
    def may_be_still(self) -> bool:
        """Whether something runs that may say nothing for long: a command, unless its layer is only fetched, or an export."""
        running = [step for step in self.steps.values() if step.running]
        return any(
            step.label.text.startswith("exporting ") or (step.label.text.startswith("RUN ") and not step.cached)
            for step in running
        )

    def cache_troubles(self) -> list[str]:
        """Return what went wrong with the layer cache, each once; that nothing is there yet does not count."""
        steps = [step for step in self.steps.values() if step.label.role is Role.CACHE and not step.canceled]
        errors = [f"{step.label.text}: {clean(step.error.encode())}" for step in steps if step.error]
        return [
            text for text in dict.fromkeys(errors) if not (_NO_CACHE_YET.search(text) and text.startswith("importing"))
        ]

    def close(self) -> list[Event]:
        """Return the lines that were left without an end."""
        return [event for step in self.steps.values() for event in _lines(step, step.output.flush())]

    def failed_steps(self) -> list[Step]:
        """Return the steps that failed by themselves, the first to fail first."""
        failed = [step for step in self.steps.values() if step.failed]
        return sorted(failed, key=lambda step: step.completed or float("inf"))

    def blamed(self) -> str:
        """Return the target that buildx's closing ``ERROR:`` line names; empty when it names none."""
        matches = (_TARGET_ERROR.match(text) for text in reversed(self.texts))
        return next((match[1] for match in matches if match and match[1] in self.targets), "")

    def _vertex(self, vertex: rawjson.Vertex) -> list[Event]:
        label = parse(vertex.name, {*self.targets, *self.beside})
        step = self.steps.get(vertex.digest)
        if step is None:
            step = self.steps[vertex.digest] = Step(label, Output(TAIL))
        step.has_inputs = step.has_inputs or vertex.has_inputs
        was_running = step.seen_at is not None and bool(step.targets)
        events = [event for name in self._served(label) for event in self._join(step, vertex.digest, name)]
        self._update(step, vertex)
        if not step.targets:
            return events
        if step.seen_at is not None and not was_running and step.label.role not in _QUIET and not step.cached:
            events.append(StepStarted(tuple(step.targets), step.label.title, vertex.digest))
        if step.completed is not None:
            events += self._finish(step, vertex.digest)
        return events

    def _served(self, label: Label) -> tuple[str, ...]:
        """Return the targets that a name speaks of: one, or with no name in it the only one or all."""
        if label.target in self.beside:
            return ()
        return (label.target,) if label.target else tuple(self.targets)

    def _join(self, step: Step, digest: str, name: str) -> list[Event]:
        if name in step.targets:
            return []
        step.targets[name] = None
        if step.label.role is Role.STEP:
            self.targets[name].steps[digest] = step
        return [LogLines((name,), step.label.title, tuple(step.output.tail))] if step.output.tail else []

    def _update(self, step: Step, vertex: rawjson.Vertex) -> None:
        if vertex.started is None:
            return
        if step.seen_at is None:
            step.seen_at = self.clock()
        if step.started is None or vertex.started < step.started:
            step.started = vertex.started
        # A vertex may begin again after its end (an image is resolved, then unpacked).
        step.completed = vertex.completed
        if vertex.has_inputs or not step.has_inputs:
            step.cached = vertex.cached and (step.cached or step.reported is None)
        if vertex.error and (not step.error or step.canceled):
            step.error = vertex.error
        for name in step.targets:
            self._show(self.targets[name], step)

    def _show(self, target: TargetState, step: Step) -> None:
        if step.label.role in _QUIET and target.steps and not step.failed:
            return
        if target.started_at is None:
            target.started_at = self.clock()
        if step.failed:
            target.failure = target.failure or step
            target.current, target.finished_at = step, self.clock()
        elif step.running:
            target.current = step
            target.finished_at = target.finished_at if target.exported or target.failure else None
        elif target.current is None or not target.current.running:
            target.current = step
        if step.completed is None or step.error:
            return
        if step.label.role is Role.EXPORT:
            target.exported = True
        if target.exported or (step.label.role is Role.STEP and target.done == target.total):
            target.finished_at = self.clock()

    def _finish(self, step: Step, digest: str) -> list[Event]:
        events = _lines(step, step.output.flush())
        again = step.reported is not None and step.seconds - step.reported < 0.5
        if again or (step.label.role in _QUIET and not step.failed):
            return events
        step.reported = step.seconds
        title = step.label.title
        targets = tuple(step.targets)
        events.append(StepFinished(targets, title, step.seconds, step.cached, step.error, step.canceled, digest))
        return events

    def _log(self, log: rawjson.Log) -> list[Event]:
        step = self.steps.get(log.vertex)
        if step is None:
            return []
        lines, unfinished = step.output.feed(log.stream, log.data)
        newest = unfinished or next((line for line in reversed(lines) if line), "")
        for name in step.targets:
            self.targets[name].last_line = newest or self.targets[name].last_line
        return _lines(step, lines)


def _lines(step: Step, lines: Sequence[str]) -> list[Event]:
    return [LogLines(tuple(step.targets), step.label.title, tuple(lines))] if lines and step.targets else []
