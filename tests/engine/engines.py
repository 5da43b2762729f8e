"""Engines of a test's own: fresh ones, each with a data root, images, caches and a network that nothing else uses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wayout import WayOut

from bakery.engine import private_engine


@contextmanager
def fresh_engine(folder: Path, *, cores: int = 0) -> Iterator[dict[str, str]]:
    """Give the environment that leads to a new engine, which ends with the context.

    Args:
        folder: an empty folder of a short name: a unix socket's path has at most 107 bytes.
        cores: how many it has; 0 for all.
    """
    if os.geteuid() != 0:
        pytest.skip("a private engine needs root")
    environ = {**os.environ, "BAKERY_ENGINE_DIR": str(folder)}
    for name in ("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT"):
        environ.pop(name, None)
    own = os.sched_getaffinity(0)
    prefix = private_engine.install(lambda _: None, environ)
    way = WayOut.numbered(prefix, 7)
    try:
        try:
            # dockerd and its containers are children: they inherit it.
            os.sched_setaffinity(0, set(sorted(own)[: cores or None]))
            engine = private_engine.start(prefix, lambda _: None, environ)
        finally:
            os.sched_setaffinity(0, own)
        way.open(engine.pid)
        yield environ | private_engine.environment(engine, environ)
    finally:
        way.close()
        private_engine.remove(environ)
