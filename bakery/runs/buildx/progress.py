"""The rawjson stream → the state of every target, and events for displays and logs. No input or output.

A vertex that several targets need comes with several names and the same digest. Its logs come once: they count for all of
these targets, also for one whose name comes later.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from bakery.runs.buildx import rawjson
from bakery.runs.buildx.rawjson import Label, Output, Role, clean, parse
from bakery.runs.buildx.step_names import StepName, name_step

MAX_TEXT_LINES = 500
_UNUSED = re.compile(r"failed to calculate checksum .*: context canceled\Z")
"""BuildKit stops computing the key of a step whose result it meanwhile found by another key: the step did not run."""

_CANCELED = re.compile(r"context canceled(?:: context canceled)*\Z|code = Canceled desc = ")
_QUIET = (Role.INTERNAL, Role.CACHE)
"""Not shown by displays and logs."""

_COMPILED = re.compile(r"bakery: ccache had (\d+) of (\d+) compilations")
"""A line of ``count-ccache``."""

_COUNTER = re.compile(r"\[ *(\d{1,6})/(\d{1,6})\] ")
"""How ninja and others begin the line of a command: ``[13/48] ``."""

_DEFINITION = "load build definition from "
"""The first that the engine does for a bake."""

_NO_CACHE_YET = re.compile(r"not found|no such file or directory|could not read|cache not found", re.IGNORECASE)
"""Errors of an import from a cache that is still empty."""
_TARGET_ERROR = re.compile(r"ERROR: target (\S+): ")


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step began; ``work`` is what it does, in words."""

    targets: tuple[str, ...]
    title: str
    digest: str = ""
    work: str = ""


@dataclass(frozen=True, slots=True)
class StepFinished:
    """A step ended; parallel bakes report one that they share once each, with the same ``digest``."""

    targets: tuple[str, ...]
    title: str
    seconds: float
    cached: bool
    error: str
    canceled: bool
    digest: str = ""
    work: str = ""


@dataclass(frozen=True, slots=True)
class LogLines:
    """Lines that a step printed."""

    targets: tuple[str, ...]
    title: str
    lines: tuple[str, ...]
    digest: str = ""


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line that buildx itself wrote."""

    text: str


Event: TypeAlias = StepStarted | StepFinished | LogLines | TextLine


@dataclass(slots=True)
class Step:
    """The state of a vertex.

    Attributes:
        digest: identifies it, also among parallel bakes.
        work: what it does, in words.
        targets: those that need it, in the order of their names in the stream.
        started: when it began, for the last time if it began several times.
        earlier: seconds that it ran before that.
        seen_at: the local clock when it was seen to begin.
        reported: seconds of the last `StepFinished`; None before the first.
        inputs: digests of the steps that it depends on. A layer of an imported cache is pulled and unpacked only once
            another step needs it; the vertex then starts again, without its inputs, and is not reported as cached.
    """

    label: Label
    output: Output
    digest: str = ""
    work: str = ""
    targets: dict[str, None] = field(default_factory=dict)
    started: float | None = None
    completed: float | None = None
    earlier: float = 0.0
    cached: bool = False
    error: str = ""
    seen_at: float | None = None
    reported: float | None = None
    inputs: tuple[str, ...] = ()

    @property
    def is_command(self) -> bool:
        """Whether it runs a command in a container."""
        return self.label.text.startswith("RUN ")

    @property
    def running(self) -> bool:
        """Whether it started and did not end."""
        return self.started is not None and self.completed is None

    @property
    def canceled(self) -> bool:
        """Whether the build was ended while it ran."""
        return bool(self.error and _CANCELED.search(self.error))

    @property
    def failed(self) -> bool:
        """Whether it failed by itself; layer caches that cannot be read or written do not count."""
        return bool(self.error) and not self.canceled and self.label.role is not Role.CACHE

    @property
    def counter(self) -> tuple[int, int] | None:
        """How many of the commands of its build tool it began, and how many there are; None if it does not tell."""
        matches = (_COUNTER.match(line) for line in reversed(self.output.tail))
        return next(((int(match[1]), int(match[2])) for match in matches if match), None)

    @property
    def seconds(self) -> float:
        """How long it ran, by the engine's clock; 0 before its end."""
        if self.started is None or self.completed is None:
            return 0.0
        return self.earlier + max(0.0, self.completed - self.started)


@dataclass(slots=True)
class TargetState:
    """One target, as displays show it.

    Attributes:
        started_at: the local clock when its first step was seen running.
        finished_at: the local clock when its result was exported or its step failed.
        exported: its result left the engine, or the bake succeeded; later failures do not change that.
        failure: the first step that failed by itself.
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
        """Steps that succeeded."""
        return sum(step.completed is not None and not step.error for step in self.steps.values())

    @property
    def cached(self) -> int:
        """Steps that were cached."""
        return sum(step.cached for step in self.steps.values())

    @property
    def is_cached(self) -> bool:
        """Whether no command of it ran; copies do not count: BuildKit repeats some that are cached."""
        commands = [step for step in self.steps.values() if step.is_command]
        return all(step.cached or step.canceled for step in commands) and bool(commands)

    @property
    def compiled(self) -> tuple[int, int] | None:
        """Compilations with a compiler cache, and hits of these; None if no step reported them."""
        lines = (line for step in self.steps.values() if not step.cached for line in step.output.tail)
        counts = [(int(match[2]), int(match[1])) for line in lines if (match := _COMPILED.fullmatch(line))]
        return (sum(all_ for all_, _ in counts), sum(had for _, had in counts)) if counts else None

    def elapsed(self, now: float) -> float:
        """Return the seconds from its start to its end, or to ``now`` (local clock)."""
        if self.started_at is None:
            return 0.0
        return (self.finished_at if self.finished_at is not None else now) - self.started_at


class Progress:
    """The state of one bake; ``moved``: the local clock of the last change, a repeated number of bytes is none.

    Targets ``beside`` the requested ones have no state, and steps that only they need cause no events. ``name`` says what a
    step does.
    """

    def __init__(
        self,
        targets: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
        beside: Sequence[str] = (),
        name: StepName = name_step,
    ) -> None:
        self._name = name
        self.beside = frozenset(beside)
        self.targets = {name: TargetState(name) for name in targets}
        self.texts: list[str] = []
        self.moved = clock()
        self._began: float | None = None
        self._amounts: dict[str, int] = {}
        self.steps: dict[str, Step] = {}
        self.clock = clock

    def feed(self, line: bytes) -> list[Event]:
        """Process one line of the stream; return the events."""
        status = rawjson.decode(line)
        if status.vertices or status.logs or status.text or not status.amounts.items() <= self._amounts.items():
            self.moved = self.clock()
            self._amounts |= status.amounts
        events: list[Event] = []
        for vertex in status.vertices:
            events += self._vertex(vertex)
        for log in status.logs:
            events += self._log(log)
        if status.text:
            text = clean(status.text.encode())
            self.texts = [*self.texts[-MAX_TEXT_LINES:], text]
            events.append(TextLine(text))
        return events

    @property
    def ran(self) -> bool:
        """Whether a command was run; copies do not count: BuildKit repeats some that are cached."""
        commands = (step for step in self.steps.values() if step.is_command and step.inputs)
        return any(step.completed is not None and not step.cached for step in commands)

    @property
    def runs_command(self) -> bool:
        """Whether a command runs that is not cached."""
        return any(step.running and step.is_command and not step.cached for step in self.steps.values())

    @property
    def may_be_still(self) -> bool:
        """Whether a running step may be silent for long: a command that is not cached, or an export."""
        running = (step for step in self.steps.values() if step.running)
        return any(
            step.label.text.startswith("exporting ") or (step.is_command and not step.cached) for step in running
        )

    def cache_troubles(self) -> list[str]:
        """Return the errors of the layer cache, each once; that it is empty is no error."""
        steps = [step for step in self.steps.values() if step.label.role is Role.CACHE and not step.canceled]
        errors = [f"{step.label.text}: {clean(step.error.encode())}" for step in steps if step.error]
        return [
            text for text in dict.fromkeys(errors) if not (_NO_CACHE_YET.search(text) and text.startswith("importing"))
        ]

    def close(self, *, succeeded: bool) -> list[Event]:
        """End; return the unfinished lines. After a success all targets are done, also those that export nothing."""
        for target in self.targets.values() if succeeded else ():
            target.exported = True
            target.finished_at = self.clock() if target.finished_at is None else target.finished_at
        return [event for step in self.steps.values() for event in _lines(step, step.output.flush())]

    def failed_steps(self) -> list[Step]:
        """Return the steps that failed by themselves, the earliest first."""
        failed = [step for step in self.steps.values() if step.failed]
        return sorted(failed, key=lambda step: step.completed or float("inf"))

    def blamed(self) -> str:
        """Return the target in buildx's final ``ERROR:`` line; empty if there is none."""
        matches = (_TARGET_ERROR.match(text) for text in reversed(self.texts))
        return next((match[1] for match in matches if match and match[1] in self.targets), "")

    def _vertex(self, vertex: rawjson.Vertex) -> list[Event]:
        label = parse(vertex.name, {*self.targets, *self.beside})
        step = self.steps.get(vertex.digest)
        if step is None:
            step = self.steps[vertex.digest] = Step(label, Output(), vertex.digest, self._name(label))
        if label.text.startswith(_DEFINITION) and self._began is None:
            self._began = vertex.started
        if vertex.completed is not None and vertex.completed < (self._began or 0.0):
            # Another build, which may have ended, ran it before.
            step.started = vertex.completed
            vertex = replace(vertex, started=vertex.completed, cached=True)
        step.inputs = step.inputs or vertex.inputs
        was_running = step.seen_at is not None and bool(step.targets)
        events = [event for name in self._served(label) for event in self._join(step, name)]
        self._update(step, vertex)
        if not step.targets:
            return events
        if step.seen_at is not None and not was_running and step.label.role not in _QUIET and not step.cached:
            events.append(StepStarted(tuple(step.targets), step.label.title, step.digest, step.work))
        if step.completed is not None:
            events += self._finish(step)
        return events

    def _served(self, label: Label) -> tuple[str, ...]:
        """Return the targets that a name is about: without a target in the name, all of them."""
        if label.target in self.beside:
            return ()
        return (label.target,) if label.target else tuple(self.targets)

    def _join(self, step: Step, name: str) -> list[Event]:
        if name in step.targets:
            return []
        step.targets[name] = None
        if step.label.role is Role.STEP:
            self.targets[name].steps[step.digest] = step
        return [LogLines((name,), step.label.title, tuple(step.output.tail), step.digest)] if step.output.tail else []

    def _update(self, step: Step, vertex: rawjson.Vertex) -> None:
        if vertex.started is None:
            return
        if step.seen_at is None:
            step.seen_at = self.clock()
        # A vertex may begin again after its end (an image is resolved, then unpacked).
        if step.started is not None and step.completed is not None and vertex.started >= step.completed:
            step.earlier = step.seconds
            step.started, step.seen_at = vertex.started, self.clock()
        elif step.started is None or vertex.started < step.started:
            step.started = vertex.started
        step.completed = vertex.completed
        unused = bool(_UNUSED.match(vertex.error))
        if vertex.inputs or not step.inputs:
            step.cached = (vertex.cached or unused) and (step.cached or step.reported is None)
        if vertex.error and not unused and (not step.error or step.canceled):
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

    def _finish(self, step: Step) -> list[Event]:
        events = _lines(step, step.output.flush())
        again = step.reported is not None and step.seconds - step.reported < 0.5
        if again or (step.label.role in _QUIET and not step.failed):
            return events
        step.reported = step.seconds
        targets, title = tuple(step.targets), step.label.title
        end = StepFinished(targets, title, step.seconds, step.cached, step.error, step.canceled, step.digest, step.work)
        return [*events, end]

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
    return (
        [LogLines(tuple(step.targets), step.label.title, tuple(lines), step.digest)] if lines and step.targets else []
    )
