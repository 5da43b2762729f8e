"""The outcome of a bake."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bakery.plan.values import Json
from bakery.runs.journal import Result

LATE = "not done within "
"""The beginning of the error of a bake that was ended at its time limit."""


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """One target.

    Attributes:
        seconds: from its first step to its end, by the local clock.
        cached: the number of its steps that were cached.
        log: the output of its steps; missing if there was none.
        compiled: compilations with a compiler cache, and hits of these; None if no such step ran.
        metadata: buildx's metadata (``containerimage.digest``, …); empty after a failure of any target.
    """

    result: Result
    seconds: float
    steps: int
    cached: int
    log: Path
    metadata: Mapping[str, Json]
    compiled: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a bake failed.

    Attributes:
        targets: those that need the failed step; empty for a failure of the bake file or the engine.
        step: the title of the failed step; empty if no step failed.
        error: the error of BuildKit or buildx.
        tail: the last lines of the step; of buildx if no step failed.
        work: what the step does, in words.
        messages: the tools' own messages in its output; without any, the end of the output.
        index: which of the stage's steps failed: ``2/3``.
    """

    targets: tuple[str, ...]
    step: str
    error: str
    tail: tuple[str, ...]
    log: Path | None
    hint: str
    stage: str = ""
    work: str = ""
    messages: tuple[str, ...] = ()
    index: str = ""


@dataclass(frozen=True, slots=True)
class BakeOutcome:
    """All targets of one bake, in the order of the request.

    Attributes:
        printed: secrets that steps printed, and that were hidden.
        cache: errors of the layer cache, which fail no build.
        ran: at least one command was not cached.
        times: what the steps that ran did → seconds.
        given_up: the bake was of cells whose steps should be cached, and they are not all: each is baked by itself.
    """

    targets: Mapping[str, TargetOutcome]
    failures: tuple[Failure, ...] = ()
    printed: tuple[str, ...] = ()
    cache: tuple[str, ...] = ()
    ran: bool = True
    times: Mapping[str, float] = field(default_factory=dict)
    given_up: bool = False

    def of(self, names: Collection[str]) -> BakeOutcome:
        """Return the part about one of several cells, with these targets; times are of all cells, and left out."""
        return replace(self, targets={name: self.targets[name] for name in names}, times={})
