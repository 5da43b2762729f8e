"""Known failures: which of them another try may pass, and what to do about the others; ``failures.toml`` has the messages.

A failed compile or test step is never transient, whatever it prints: it has no network, and would fail again after hours
of work.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pydantic import TypeAdapter

from bakery.runs.buildx import missing
from bakery.runs.buildx.bake_outcome import LATE, Failure

OWN_WORK = re.compile(
    r"\[(?:\S+ )?(?:(?:backend-requires|native|compile)(?:-again)?|repair|\S+-test|\S+-built)(?: \d+/\d+)?\] (?:RUN|COPY|WORKDIR)\b"
)
"""Titles of steps that run the project's own code."""

_STEP_ENDED = "did not complete successfully: "
"""In BuildKit's error if a step's command failed; other errors are those of the engine."""

_LOST = re.compile(r"snapshot \S+ does not exist|/snapshots/\d+/fs: no such file or directory")
"""Messages of containerd or the kernel about a missing layer."""


@dataclass(frozen=True, slots=True)
class FailureHint:
    """A known cause: ``patterns`` of lines, and of the step's title (``stage``, empty for any), and what to do."""

    patterns: tuple[str, ...]
    hint: str
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Messages:
    """The content of ``failures.toml``."""

    engine: tuple[str, ...]
    network: tuple[str, ...]
    hints: tuple[FailureHint, ...]
    otherwise: tuple[FailureHint, ...]


@cache
def messages() -> Messages:
    """Return the known messages."""
    table = tomllib.loads((files(__package__) / "failures.toml").read_text(encoding="utf-8"))
    return TypeAdapter(Messages).validate_python(table)


def hint(lines: Iterable[str], title: str = "", recipe: missing.Recipe | None = None) -> str:
    """Return what to do about a failed step; empty if the cause is not known.

    Args:
        lines: its output, and BuildKit's error.
        title: as displays show it: ``[compile 3/5] RUN …``.
        recipe: of the failed cell, for advice that names a line of it.
    """
    texts, stage = tuple(lines), title.partition("]")[0].lstrip("[")
    return (
        _known(messages().hints, texts, stage)
        or missing.advice(texts, stage, recipe or missing.Recipe())
        or _known(messages().otherwise, texts, stage)
    )


def _known(hints: Iterable[FailureHint], texts: tuple[str, ...], stage: str) -> str:
    fitting = (entry for entry in hints if not entry.stage or re.search(entry.stage, stage))
    return next((entry.hint for entry in fitting if _matches(entry.patterns, texts)), "")


def is_transient(failure: Failure) -> bool:
    """Return whether another try may pass."""
    error, _, ended = failure.error.partition(_STEP_ENDED)
    if not ended:
        return _matches((*messages().engine, *messages().network), (error, *(() if failure.step else failure.tail)))
    if OWN_WORK.match(failure.step):
        return False
    return _matches(messages().network, failure.tail)


def may_be_the_cache(failure: Failure) -> bool:
    """Return whether layers of an imported cache may be missing: no command failed, and it was not the time limit.

    BuildKit trusts the index of a cache, and fetches a layer only when a step needs it.
    """
    return _STEP_ENDED not in failure.error and not failure.error.startswith(LATE)


def lost_a_layer(failure: Failure) -> bool:
    """Return whether the engine's build cache names a layer that the engine does not have; retries do not help.

    A client that is killed can cause this (https://github.com/moby/buildkit/pull/6808). A build without the cache
    replaces the lost layer.
    """
    return _STEP_ENDED not in failure.error and bool(_LOST.search(failure.error))


def went_away(failure: Failure) -> bool:
    """Return whether the engine or the connection to it failed, not a command."""
    return _STEP_ENDED not in failure.error and is_transient(failure)


def _matches(patterns: Iterable[str], lines: Iterable[str]) -> bool:
    return any(re.search(pattern, line, re.IGNORECASE) for pattern in patterns for line in lines)
