"""Finds the engine that a command uses: the user's own if it can bake, else bakery's private one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bakery.core.errors import EngineError
from bakery.engine import private_engine
from bakery.engine.client import ClientError, Engine
from bakery.engine.paths import engine_paths
from wheel_audit.readers import read_json

MINIMUM_BUILDX = (0, 19)
HINT = f"`wheel-bakery engine up` sets up a private engine; or {private_engine.REQUIREMENT}"
_CHOSEN_HINT = (
    "start that engine, or choose another one: unset DOCKER_HOST and DOCKER_CONTEXT (`docker context use default`); "
    "`wheel-bakery engine up` sets up a private one where there is none"
)
CLIENT_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class EngineAddress:
    """An engine that can bake: ``private`` for bakery's, ``user`` for DOCKER_HOST or the current docker context."""

    source: Literal["user", "private"]
    host: str  # as for DOCKER_HOST; empty for the current docker context
    version: str
    buildx: str
    environment: Mapping[
        str, str
    ]  # what a docker client needs besides the variables of the process; empty for ``user``


def find(environ: Mapping[str, str] | None = None, *, timeout_s: float = CLIENT_TIMEOUT_S) -> EngineAddress:
    """Return the engine to use: the user's if it answers and its client has buildx, otherwise a running private one.

    Each call of the client may take ``timeout_s``. Raises EngineError with what was tried if no engine can bake, and if the
    user chose an engine (`chosen`) that cannot: no other one takes its place.
    """
    env = dict(os.environ if environ is None else environ)
    private = private_engine.status(env)
    # With the private engine's own variables set, the user's engine and the private one are the same.
    if private is not None and env.get("DOCKER_HOST") == private.host:
        return _private(private, env)
    try:
        version, buildx = _versions(env, timeout_s)
    except ClientError as error:
        if choice := chosen(env):
            raise EngineError(f"{choice}, and it cannot bake", hint=_CHOSEN_HINT, details=[error.reason]) from error
        if private is None:
            details = [f"docker: {error.reason}", "private engine: not running"]
            raise EngineError("no engine that can bake", hint=HINT, details=details) from error
        return _private(private, env)
    return EngineAddress("user", env.get("DOCKER_HOST", ""), version, buildx, {})


def chosen(environ: Mapping[str, str]) -> str:
    """Return how the user chose an engine other than the machine's default and the private one; empty if they did not."""
    host = environ.get("DOCKER_HOST")
    if host and host != f"unix://{engine_paths(environ).socket}":
        return f"DOCKER_HOST is {host}"
    if host:
        # The client prefers it to a context.
        return ""
    if context := environ.get("DOCKER_CONTEXT"):
        return f"DOCKER_CONTEXT is {context}"
    folder = environ.get("DOCKER_CONFIG") or Path(environ.get("HOME", "/")) / ".docker"
    try:
        context = read_json(Path(folder) / "config.json", follow=True).get("currentContext")
    except (OSError, ValueError, AttributeError):
        return ""
    return f"the current docker context is {context}" if context and context != "default" else ""


def require_builder(environ: Mapping[str, str], name: str) -> None:
    """Raise EngineError if buildx has no builder of a name. ``environ``: of a client that reaches the engine."""
    try:
        with Engine(environ).docker() as docker:
            docker.buildx.inspect(name)
    except ClientError as error:
        raise EngineError(
            f"buildx has no builder {name!r} that can bake",
            hint="`docker buildx ls` lists the builders; BUILDX_BUILDER and --builder choose one",
            details=[error.reason],
        ) from error


def find_client(environ: Mapping[str, str], *, timeout_s: float = CLIENT_TIMEOUT_S) -> dict[str, str]:
    """Return the environment of a docker client with buildx, whose engine need not run; or raise EngineError."""
    private = private_engine.status(environ)
    if private is not None:
        return {**environ, **private_engine.environment(private, environ)}
    try:
        Engine(environ).buildx_version(timeout_s=timeout_s)
    except ClientError as error:
        raise EngineError("no docker client with buildx", hint=HINT, details=[f"docker: {error.reason}"]) from error
    return dict(environ)


def _private(engine: private_engine.RunningEngine, env: Mapping[str, str]) -> EngineAddress:
    """Describe the running private engine. Its programs came together, so no client has to be asked for versions.

    Raises EngineError if its programs are incomplete.
    """
    if not engine.prefix.buildx:
        raise EngineError(
            "the private engine cannot bake: its programs are incomplete",
            hint="`wheel-bakery engine down`, delete its folder in the cache, then `… engine up`",
            details=[str(engine.prefix.path)],
        )
    added = private_engine.environment(engine, env)
    return EngineAddress("private", engine.host, engine.version, engine.prefix.buildx, added)


def _versions(env: Mapping[str, str], timeout_s: float) -> tuple[str, str]:
    """Return the versions of the engine and of buildx. Raises ClientError if one of them is missing or too old."""
    client = Engine(env)
    with ThreadPoolExecutor(2) as pool:
        server = pool.submit(client.version, timeout_s=timeout_s)
        plugin = pool.submit(client.buildx_version, timeout_s=timeout_s)
        version, buildx = server.result(), plugin.result()
    words = ("buildx", "version")
    if buildx is None:
        raise ClientError(words, "the version of its buildx cannot be read")
    text, minimum = (".".join(map(str, numbers)) for numbers in (buildx, MINIMUM_BUILDX))
    if buildx < MINIMUM_BUILDX:
        raise ClientError(words, f"its buildx is {text}, and bakery needs {minimum} or newer")
    return version, text
