"""What rules look at of a plan's layer cache, and of the machine that is to write it."""

from __future__ import annotations

import csv
import fnmatch
from dataclasses import dataclass

from bakery.core.names import TARGET_KINDS, CacheBackend
from bakery.plan.model import Plan
from bakery.plan.options import Cache, Override
from bakery.toolchains.disk_space import cached
from bakery.toolchains.facts import cache_service

_PLACES = ("scope", "ref", "dest", "name")
"""What names the place of a cache, by its kind."""


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that is to build, as far as it is known; nothing of it where none is meant.

    Attributes:
        memory: bytes; 0 where that is not known.
        exports: the kinds of layer cache that its engine writes; None where that is not known.
        engine: who that is, in words.
        lacking: variables that a cache of GitHub needs and that are not set.
        token_s: seconds that the right to write into GitHub's cache has left; None where it does not say.
    """

    memory: int = 0
    exports: frozenset[str] | None = None
    engine: str = ""
    lacking: tuple[str, ...] = ()
    token_s: float | None = None


@dataclass(frozen=True, slots=True)
class CacheUse:
    """A plan's layer cache.

    Attributes:
        cache: the policy.
        longest: the longest scope that a target has, with its branch.
        shared: (place, targets) where several targets write to one place.
        asked: what the workflow is told to use; empty where an estimate decides.
        estimated_mb: MB that the layers of all cells take, packed; 0 where nobody writes to GitHub's cache.
    """

    cache: Cache
    longest: str
    shared: tuple[tuple[str, tuple[str, ...]], ...]
    asked: str
    estimated_mb: int


def cache_use(plan: Plan) -> CacheUse:
    """Return what rules look at of a plan's cache."""
    asked = plan.ci.cache if plan.ci else ""
    to_github = CacheBackend.GHA in (plan.cache.backend, asked)
    tail = "-" + "0" * 12 if plan.values()["CACHE_BRANCH"] else ""
    tagged = plan.cache.backend in (CacheBackend.REGISTRY, CacheBackend.INLINE)
    return CacheUse(
        cache=plan.cache,
        longest=max(
            (plan.scope(target) for target in plan.targets() if TARGET_KINDS[target.kind].writes_cache),
            key=len,
            default="",
        )
        + tail
        if tagged
        else "",
        shared=tuple(_shared(plan)) if any(item.key == "cache-to" for item in plan.overrides) else (),
        asked=asked,
        estimated_mb=round(cached(plan, cache_service("gha").packed) * 1000) if to_github else 0,
    )


def _shared(plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    """Return the places that overrides give to several targets."""
    written: dict[str, dict[str, None]] = {}
    given = [item for item in plan.overrides if item.key == "cache-to"]
    for target in plan.targets():
        for override in given:
            if fnmatch.fnmatchcase(target.name, override.pattern) and (place := _place(override)):
                written.setdefault(place, {})[target.name] = None
    return [(place, tuple(names)) for place, names in written.items() if len(names) > 1]


def _place(override: Override) -> str:
    """Return the place that an override writes to; empty for none, and for a cache that lies in the image."""
    row = next(csv.reader([override.value]), [])
    if not row:
        return ""
    fields = {key.strip().lower(): value for key, found, value in (item.partition("=") for item in row) if found}
    kind = fields.get("type", "registry")
    if kind == "inline":
        return ""
    # Where none is named, all of them write to BuildKit's own.
    return f"{kind} {next((fields[key] for key in _PLACES if fields.get(key)), 'without a name of its own')}"
