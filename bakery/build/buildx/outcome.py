"""The outcome of a bake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bakery.build.buildx.rawjson import Warned
from bakery.core.errors import BakeError
from bakery.plan.values import Json

LATE = "not done within "
"""Begins the error of what took longer than it was allowed."""


class Result(StrEnum):
    """The result of a target."""

    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"
    KEPT = "kept"
    """It was done by an earlier run, and nothing that defines it changed."""


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """One target.

    Attributes:
        seconds: from its first step to its end, by the local clock.
        steps: steps that it has.
        cached: steps of these that were not run because their result was known.
        log: what its steps printed; missing when none of them printed anything.
        compiled: compilations that steps asked a compiler cache for, and how many of them it had; None where no step
            that compiles was run.
        metadata: what buildx says of its result (``containerimage.digest``, ``buildx.build.ref``); empty
            when it says nothing, as after a failure of any target.
    """

    name: str
    result: Result
    seconds: float
    steps: int
    cached: int
    log: Path
    metadata: Mapping[str, Json]
    compiled: tuple[int, int] | None = None

    @property
    def digest(self) -> str:
        """The image's digest; empty for what is no image."""
        value = self.metadata.get("containerimage.digest")
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a bake failed.

    Attributes:
        targets: whom the failing step serves; empty when no target is to blame (the bake file, the engine).
        step: the failing step's title; empty when no step failed.
        error: what BuildKit or buildx says of it.
        tail: the last lines that the step printed, or that buildx wrote when there is no step.
        log: the log of the first target, None when there is none.
        hint: what to do, where the cause is known.
        stage: the stage of the Dockerfile that the failing step is in; empty when no step failed.
    """

    targets: tuple[str, ...]
    step: str
    error: str
    tail: tuple[str, ...]
    log: Path | None
    hint: str
    stage: str = ""


@dataclass(frozen=True, slots=True)
class BakeOutcome:
    """All targets of one bake, in the order they were asked for.

    Attributes:
        failures: one for each step that failed by itself; empty when all went well.
        printed: secrets that steps printed, which were hidden.
        cache: what went wrong with the layer cache, which fails no build.
        ran: a command was run; False where the result of each was known.
    """

    targets: Mapping[str, TargetOutcome]
    seconds: float
    warnings: tuple[Warned, ...]
    failures: tuple[Failure, ...] = ()
    printed: tuple[str, ...] = ()
    cache: tuple[str, ...] = ()
    ran: bool = True


class BakeFailure(BakeError):
    """At least one target failed; ``outcome`` tells of all of them, ``details`` of the first failure."""

    def __init__(self, outcome: BakeOutcome) -> None:
        first = outcome.failures[0]
        where = ", ".join(first.targets[:3]) + (f" and {len(first.targets) - 3} more" if first.targets[3:] else "")
        message = f"{where}: {first.step}: {_short(first.error)}" if first.step else _short(first.error)
        hint = "; ".join(part for part in (first.hint, f"the whole log: {first.log}" if first.log else "") if part)
        super().__init__(message, hint=hint, details=first.tail)
        self.outcome = outcome


def _short(error: str) -> str:
    """Return the part of BuildKit's error that is not the command, which the step's title shows already."""
    _, separator, end = error.rpartition("did not complete successfully: ")
    return (end if separator else error).strip().partition("\n")[0]
