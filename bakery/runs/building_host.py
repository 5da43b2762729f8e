"""The facts about the machine that will build a plan, for the rules."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from bakery.core.errors import EngineError
from bakery.core.names import CacheBackend
from bakery.engine.client import Engine, exports
from bakery.engine.discover import find
from bakery.engine.host import memory
from bakery.plan.build_facts import JobLimits
from bakery.plan.model import Plan
from bakery.resolve.rules.cache_use import Host
from bakery.runs.buildx import gha_cache_env


def building_host(plan: Plan, builder: str | None, environ: Mapping[str, str]) -> Host:
    """Return the facts that rules for this plan need; others are not queried. ``builder``: as ``--builder`` names it."""
    backend, limited = plan.cache.backend, any(item.limits != JobLimits() for item in plan.all_facts)
    if backend is CacheBackend.NONE and not limited:
        return Host()
    end = gha_cache_env.expiry(environ)
    host = Host(
        memory=memory() if limited else 0,
        lacking=gha_cache_env.lacking(environ) if backend is CacheBackend.GHA else (),
        token_s=None if end is None else end - time.time(),
    )
    try:
        engine = Engine({**environ, **find(environ).environment})
        info = engine.info()
        driver = engine.driver(builder) if backend is not CacheBackend.NONE else ""
    except EngineError:
        return host
    host = replace(host, memory=info.memory if limited else 0)
    # Nodes of a configured builder are BuildKit itself, which exports every kind of cache.
    return replace(host, exports=exports(driver, info.store), engine=f"driver {driver}") if driver else host
