"""Decides which engine a command uses: the user's own if it can bake, else bakery's private one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from bakery.core.errors import EngineError
from bakery.engine import private_engine

MINIMUM_BUILDX = (0, 19)
HINT = f"`wheel-bakery engine up` sets up a private engine; or {private_engine.REQUIREMENT}"
CLIENT_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class EngineAddress:
    """An engine that can bake, and how to reach it.

    Attributes:
        source: ``user`` for DOCKER_HOST or the current docker context, ``private`` for bakery's own.
        host: its address, as for DOCKER_HOST; empty for the user's current docker context.
        version: the engine's version.
        buildx: the buildx plugin's version.
        environment: variables to add to the process's own for a docker client; empty for ``user``.
    """

    source: Literal["user", "private"]
    host: str
    version: str
    buildx: str
    environment: Mapping[str, str]


class _Refused(Exception):
    """An engine cannot be used; the text says why."""


def find(environ: Mapping[str, str] | None = None, *, timeout_s: float = CLIENT_TIMEOUT_S) -> EngineAddress:
    """Return the engine to use.

    The user's own comes first (DOCKER_HOST, else the current docker context) if it answers and its client
    has buildx; then the private engine if it runs.

    Args:
        environ: the environment to look in; the process's own when None.
        timeout_s: seconds to wait for each answer of a docker client.

    Raises:
        EngineError: no engine can bake; ``details`` says what was tried.
    """
    env = dict(os.environ if environ is None else environ)
    private = private_engine.status(env)
    # With the private engine's own variables set, the user's engine and the private one are the same.
    if private is not None and env.get("DOCKER_HOST") == private.host:
        return _private(private, env, timeout_s)
    try:
        version, buildx = _ask(env, timeout_s)
    except _Refused as refusal:
        if private is None:
            details = [f"docker: {refusal}", "private engine: not running"]
            raise EngineError("no engine that can bake", hint=HINT, details=details) from refusal
        return _private(private, env, timeout_s)
    return EngineAddress("user", env.get("DOCKER_HOST", ""), version, buildx, {})


def find_client(environ: Mapping[str, str], *, timeout_s: float = CLIENT_TIMEOUT_S) -> Mapping[str, str]:
    """Return the variables that lead to a docker client with buildx; its engine need not run.

    Raises:
        EngineError: there is none; ``details`` says what was tried.
    """
    private = private_engine.status(environ)
    if private is not None:
        return private_engine.environment(private, environ)
    try:
        _client(environ, ["buildx", "version"], timeout_s)
    except _Refused as refusal:
        raise EngineError("no docker client with buildx", hint=HINT, details=[f"docker: {refusal}"]) from refusal
    return {}


def _private(engine: private_engine.RunningEngine, env: Mapping[str, str], timeout_s: float) -> EngineAddress:
    """Describe the private engine.

    Raises:
        EngineError: it runs, but its client cannot bake.
    """
    added = private_engine.environment(engine, env)
    try:
        version, buildx = _ask({**env, **added}, timeout_s)
    except _Refused as refusal:
        raise EngineError(
            f"the private engine cannot bake: {refusal}",
            hint="`wheel-bakery engine down`, delete its folder in the cache, then `… engine up`",
            details=[str(engine.prefix.path)],
        ) from refusal
    return EngineAddress("private", engine.host, version, buildx, added)


def _ask(env: Mapping[str, str], timeout_s: float) -> tuple[str, str]:
    """Return the versions of the engine and of buildx that an environment leads to.

    Raises:
        _Refused: one of them is missing or too old.
    """
    with ThreadPoolExecutor(2) as pool:
        engine = pool.submit(_client, env, ["version", "--format", "{{.Server.Version}}"], timeout_s)
        plugin = pool.submit(_client, env, ["buildx", "version"], timeout_s)
        version, buildx = engine.result(), parse_buildx(plugin.result())
    if buildx is None:
        raise _Refused("the version of its buildx cannot be read")
    if buildx < MINIMUM_BUILDX:
        found, wanted = (".".join(map(str, numbers)) for numbers in (buildx, MINIMUM_BUILDX))
        raise _Refused(f"its buildx is {found}, and bakery needs {wanted} or newer")
    return version, ".".join(map(str, buildx))


def parse_buildx(text: str) -> tuple[int, ...] | None:
    """Read the version from what ``docker buildx version`` prints (module, version, revision)."""
    match = re.search(r"(?<=\s)v?(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(number or 0) for number in match.groups()) if match else None


def _client(env: Mapping[str, str], arguments: Sequence[str], timeout_s: float) -> str:
    """Return what the docker client prints.

    Raises:
        _Refused: it fails, is missing, or takes longer than ``timeout_s``.
    """
    try:
        done = subprocess.run(
            ["docker", *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
    except FileNotFoundError as error:
        raise _Refused("there is no docker on PATH") from error
    except subprocess.TimeoutExpired as error:
        raise _Refused(f"no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise _Refused(str(error)) from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise _Refused(lines[0])
    return done.stdout.strip()
