"""Which engine and which buildx an environment leads to."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from bakery.core.errors import EngineError
from bakery.engine.client import DOCTOR, Engine
from bakery.engine.discover import parse_buildx

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class About:
    """Versions of the engine and of buildx, and the engine's platform (``linux/x86_64``)."""

    engine: str
    buildx: str
    platform: str


def about(environment: Mapping[str, str]) -> About:
    """Ask the engine and buildx who they are.

    Raises:
        EngineError: one of them does not answer.
    """
    engine = Engine(environment)
    info = engine.info()
    try:
        done = subprocess.run(
            [*engine.call(), "buildx", "version"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError(f"buildx does not answer: {error}", hint=DOCTOR) from error
    version = ".".join(map(str, parse_buildx(done.stdout) or ())) or "unknown"
    return About(info.version, version, f"linux/{info.architecture}")
