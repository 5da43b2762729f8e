"""Environment variables: those of Bakery itself, and the environments of the programs that it starts.

Every call that starts a program passes `for_tool` or `for_stranger`; a test of the source checks that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from wheel_audit.environment import CleanEnvironment, clean_environment

PREFIX = "BAKERY_"
"""The prefix of Bakery's own variables, and of those that set a variable of a recipe: ``BAKERY_CUDA_VERSION=12.8.0``."""

OWN = frozenset(
    (
        *("ALLOW", "BACKEND", "BUILDER", "CA_BUNDLE", "DEBUG", "ENGINE_DIR", "MAX_PARALLEL", "ONLY", "OUTPUT"),
        *("PROGRESS", "PULL_REQUEST", "RECIPE", "SHARD", "SKIP", "STATE_DIR"),
        *("BASE_DIGEST", "BASE_REGISTRY"),
        *("CACHE", "CACHE_BRANCH", "CACHE_DIR", "CACHE_KEY", "CACHE_READ_ONLY", "CACHE_REF"),
        *("COMPILER_CACHE", "COMPILER_CACHE_PASSWORD", "COMPILER_CACHE_READ_ONLY", "COMPILER_CACHE_READ_PASSWORD"),
        *("COMPILER_CACHE_READ_USER", "COMPILER_CACHE_USER"),
    )
)
"""Bakery's own variables, without `PREFIX`. No variable of a recipe has one of these names: it would get the value."""

RUNNER = "ACTIONS_"
"""The prefix of the variables with which GitHub's runner gives a job tokens for its cache and its identity."""


def is_reserved(name: str) -> bool:
    """Whether a variable of the machine is no secret of a recipe: Bakery's own, or a token of GitHub's runner."""
    return name.upper().startswith((PREFIX, f"_{PREFIX}", RUNNER))


def for_tool(
    environ: Mapping[str, str] | None = None, more: Mapping[str, str] | None = None, keeps: Iterable[str] = ()
) -> CleanEnvironment:
    """Return the environment of a tool of the user, such as docker or git: all but `is_reserved`, and ``more``.

    ``environ`` is that of this process if None; ``keeps`` names reserved variables that the tool needs.
    """
    kept = frozenset(keeps)
    given = os.environ if environ is None else environ
    chosen = {name: text for name, text in given.items() if name in kept or not is_reserved(name)}
    return CleanEnvironment({**chosen, **(more or {})})


def for_stranger(
    environ: Mapping[str, str] | None = None, more: Mapping[str, str] | None = None, keeps: Iterable[str] = ()
) -> CleanEnvironment:
    """Return the environment of a program that reads or runs what others wrote: nothing that may hold a credential.

    ``environ`` is that of this process if None; ``keeps`` names further variables that it needs, ``CMAKE_`` all that begin
    so.
    """
    chosen = clean_environment(os.environ if environ is None else environ, keeps)
    return CleanEnvironment({name: text for name, text in chosen.items() if not is_reserved(name)} | dict(more or {}))
