"""The layer cache of a plan and the machine that will write it, as input of rules."""

from __future__ import annotations

import csv
import fnmatch
from dataclasses import dataclass

from bakery.core.names import CacheBackend
from bakery.core.target_kinds import TARGET_KINDS
from bakery.plan.delivery import Cache, Override
from bakery.plan.model import Plan
from bakery.toolchains.disk_space import cached
from bakery.toolchains.facts import cache_service

_LOCATIONS = ("scope", "ref", "dest", "name")
"""Attributes that name the location of a cache."""


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that will build.

    Attributes:
        memory: bytes; 0 if unknown.
        exports: the cache backends that its engine supports; None if unknown.
        engine: a description of the engine.
        lacking: variables that GitHub's cache needs and that are not set.
        token_s: seconds until the write permission of GitHub's cache expires; None if unknown.
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
        longest: the longest scope of a target, with its branch.
        shared: (location, targets) for locations that several targets write to.
        ci_cache: the cache that ``ci.cache`` sets; empty if an estimate decides.
        estimated_mb: compressed size of the layers of all cells in MB; 0 if GitHub's cache is not used.
    """

    cache: Cache
    longest: str
    shared: tuple[tuple[str, tuple[str, ...]], ...]
    ci_cache: str
    estimated_mb: int


def cache_use(plan: Plan) -> CacheUse:
    """Return the layer cache of a plan as rules see it."""
    ci_cache = plan.ci.cache if plan.ci else ""
    to_github = CacheBackend.GHA in (plan.cache.backend, ci_cache)
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
        ci_cache=ci_cache,
        estimated_mb=round(cached(plan, cache_service("gha").packed) * 1000) if to_github else 0,
    )


def _shared(plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    """Return the locations that overrides give to several targets."""
    written: dict[str, dict[str, None]] = {}
    overrides = [item for item in plan.overrides if item.key == "cache-to"]
    for target in plan.targets():
        for override in overrides:
            if fnmatch.fnmatchcase(target.name, override.pattern) and (location := _location(override)):
                written.setdefault(location, {})[target.name] = None
    return [(location, tuple(names)) for location, names in written.items() if len(names) > 1]


def _location(override: Override) -> str:
    """Return the location that an override writes to; empty for none, and for a cache inside the image."""
    row = next(csv.reader([override.value]), [])
    fields = {key.strip().lower(): value for key, equals, value in (item.partition("=") for item in row) if equals}
    kind = fields.get("type", "registry")
    if not row or kind == "inline":
        return ""
    # Without a name, all targets write to BuildKit's default.
    return f"{kind} {next((fields[key] for key in _LOCATIONS if fields.get(key)), 'without a name of its own')}"
