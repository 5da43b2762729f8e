"""What baking needs, looked at on this machine: each check says what it found and what to do about it.

The checks run side by side, and what has no answer by `LIMIT_S` is reported as that: nobody waits for a dead
engine, a silent registry or a name server that is out of reach.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TypeVar

from bakery.core.errors import BakeryError, EngineError, UnavailableError
from bakery.core.names import CA_VARIABLES
from bakery.engine import debian_packages, discover, package_index
from bakery.engine.client import Engine, EngineInfo, exports
from bakery.engine.discover import EngineAddress
from bakery.engine.qemu import emulated
from bakery.plan.values import Json

LIMIT_S = 7.0
"""After this many seconds all checks are over."""

CLIENT_S = 2.5
"""How long one call of the docker client or of apt may take: two of them and a pause must fit into LIMIT_S."""

NETWORK_S = 4.0
"""How long a registry or an index may take to answer."""

DISK_WARN = 10e9
DISK_FAIL = 2e9
"""Bytes free on a disk: a toolkit's image, its build cache and a few wheels need the first."""

JOB_MEMORY = 5e9
"""Bytes that one nvcc job needs for large kernels."""

RESERVE = 0.15
"""Part of the memory that compilers shall leave to everything else."""

PROBE_IMAGE = "debian:bookworm-slim"
PROBE_PACKAGE = "pip"


class State(StrEnum):
    """How much a finding matters: ``fail`` keeps wheels from being baked, ``warn`` some of them."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What one check found.

    Attributes:
        name: what was looked at.
        found: one line.
        advice: what to do; empty when there is nothing to do.
    """

    name: str
    state: State
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Builder:
    """The builder that buildx uses if none is named.

    Attributes:
        platforms: what its nodes build for, in their order.
        faults: what buildx says of nodes that do not answer.
    """

    name: str
    driver: str
    platforms: tuple[str, ...]
    faults: tuple[str, ...] = ()


_T = TypeVar("_T")
_Answer = tuple[State, str, str]
"""State, finding and advice of a check."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the checks share. What is asked of the engine is asked once, by the first that needs it.

    Attributes:
        project: the folder of the project.
        deadline: when all is over, on the monotonic clock.
    """

    environ: Mapping[str, str]
    ca_bundle: Path | None
    project: Path
    deadline: float
    engine: Future[EngineAddress]
    info: Future[EngineInfo]
    builder: Future[Builder]

    def wait(self, future: Future[_T]) -> _T:
        """Return an answer.

        Raises:
            TimeoutError: there is none in time.
            BakeryError: there will be none.
        """
        return future.result(max(0.0, self.deadline - time.monotonic()))

    def client(self) -> Mapping[str, str]:
        """Return the environment in which docker reaches the engine."""
        return {**self.environ, **self.wait(self.engine).environment}


def diagnose(environ: Mapping[str, str], ca_bundle: Path | None) -> tuple[Diagnosis, ...]:
    """Look at everything that baking needs; takes at most `LIMIT_S` seconds and never fails.

    Args:
        environ: the process' environment.
        ca_bundle: the certificates that build steps shall trust; None for none.
    """
    deadline = time.monotonic() + LIMIT_S
    engine: Future[EngineAddress] = Future()
    info: Future[EngineInfo] = Future()
    builder: Future[Builder] = Future()
    facts = _Facts(environ, ca_bundle, Path.cwd(), deadline, engine, info, builder)
    _start(engine, lambda: discover.find(environ, timeout_s=CLIENT_S))
    _start(info, lambda: Engine(facts.client()).info())
    _start(builder, lambda: _current_builder(facts.client()))
    running = [_start(Future(), partial(_look, name, facts)) for name in CHECKS]
    return tuple(_result(facts, name, future) for name, future in zip(CHECKS, running, strict=True))


def _start(future: Future[_T], work: Callable[[], _T]) -> Future[_T]:
    """Do ``work`` beside everything else.

    Not by a pool: the interpreter waits for a pool's threads when it ends, and looking up a name cannot be ended.
    """

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future


def _look(name: str, facts: _Facts) -> Diagnosis:
    try:
        state, found, advice = CHECKS[name](facts)
    except EngineError as error:
        if facts.engine.done() and facts.engine.exception():
            # The first check says what is wrong with it.
            return Diagnosis(name, State.SKIP, "needs an engine")
        state, found, advice = State.WARN, "; ".join((error.message, *error.details)), error.hint
    # What others say may have several lines.
    return Diagnosis(name, state, " ".join(found.split()), advice)


def _result(facts: _Facts, name: str, future: Future[Diagnosis]) -> Diagnosis:
    try:
        return facts.wait(future)
    except TimeoutError:
        # The engine without an answer is no engine; everything else may still be good enough.
        state = State.FAIL if name == "engine" else State.WARN
        return Diagnosis(
            name, state, f"no answer within {LIMIT_S:.0f} s", "try again; see whether this machine is busy"
        )
    except (BakeryError, OSError, ValueError) as error:
        return Diagnosis(name, State.WARN, f"cannot be looked at: {error}", "report this if it stays")


# --- the engine


def _engine(facts: _Facts) -> _Answer:
    try:
        engine = facts.wait(facts.engine)
    except EngineError as error:
        said = "; ".join(error.details)
        return State.FAIL, f"{error.message} ({said})" if said else error.message, error.hint
    whose = "bakery's private engine" if engine.source == "private" else "this user's engine"
    return State.OK, f"{whose}, version {engine.version}{f', at {engine.host}' if engine.host else ''}", ""


def _buildx(facts: _Facts) -> _Answer:
    # An engine whose client has no buildx, or one that is too old, is not found at all.
    return State.OK, f"version {facts.wait(facts.engine).buildx}", ""


def _current_builder(client: Mapping[str, str]) -> Builder:
    """Return the current builder.

    Raises:
        EngineError: buildx does not say.
    """
    said = _docker(client, ["buildx", "ls", "--format", "{{json .}}"])
    for line in said.splitlines():
        document: Json = json.loads(line)
        if isinstance(document, dict) and document.get("Current") is True:
            return parse_builder(document)
    raise EngineError("buildx has no current builder")


def parse_builder(document: Mapping[str, Json]) -> Builder:
    """Read one line of ``docker buildx ls --format '{{json .}}'``."""
    listed = document.get("Nodes")
    nodes = [node for node in listed if isinstance(node, dict)] if isinstance(listed, list) else []
    platforms = [str(text).rstrip("*") for node in nodes for text in _list(node.get("Platforms"))]
    faults = [str(fault) for fault in (document.get("Err"), *(node.get("Err") for node in nodes)) if fault]
    name, driver = (str(document.get(key) or "") for key in ("Name", "Driver"))
    return Builder(name, driver, tuple(dict.fromkeys(platforms)), tuple(faults))


def _list(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else []


def _builder(facts: _Facts) -> _Answer:
    builder = facts.wait(facts.builder)
    found = f"{builder.name}, driver {builder.driver}: {', '.join(builder.platforms) or 'no platform known yet'}"
    if builder.faults:
        return State.FAIL, f"{found} ({'; '.join(builder.faults)})", "choose another one: `docker buildx use default`"
    if builder.driver != "docker":
        advice = "where a base is made on this machine, choose the engine's own builder: `docker buildx use default`"
        return State.WARN, f"{found}; it does not see the engine's images", advice
    return State.OK, found, ""


def _store(facts: _Facts) -> _Answer:
    store, driver = facts.wait(facts.info).store, facts.wait(facts.builder).driver
    found = exports(driver, store)
    text = f"{store}, driver {driver}: exports {', '.join(sorted(found))} caches"
    if len(found) > 1:
        return State.OK, text, ""
    advice = 'set {"features": {"containerd-snapshotter": true}} in daemon.json, or use a docker-container builder'
    return State.WARN, text, advice


def _emulation(facts: _Facts) -> _Answer:
    platforms = facts.wait(facts.builder).platforms
    arm = facts.wait(facts.info).architecture in ("aarch64", "arm64")
    other, program = ("amd64", "qemu-x86_64") if arm else ("arm64", "qemu-aarch64")
    if f"linux/{other}" in platforms:
        return State.OK, f"linux/{other}: the builder has it", ""
    if emulated(f"linux/{other}"):
        return State.OK, f"linux/{other}: {program} is registered with the kernel", ""
    advice = (
        f"only needed for wheels of that platform: `wheel-bakery engine emulate linux/{other}` as root on Debian; "
        "where image registries are in reach: "
        f"`docker run --privileged --rm tonistiigi/binfmt --install {other}`"
    )
    return State.WARN, f"linux/{other}: this machine runs no programs of it", advice


def _registry(facts: _Facts) -> _Answer:
    try:
        _docker(facts.client(), ["buildx", "imagetools", "inspect", "--raw", PROBE_IMAGE], NETWORK_S)
    except EngineError:
        facts.wait(facts.engine)  # without an engine there is no telling
        if _makes_bases():
            return State.SKIP, "out of reach: Debian bases are made from this machine's package mirror", ""
        advice = "load the base images (`docker load`), or name a mirror in daemon.json (registry-mirrors)"
        return State.WARN, "out of reach: only images that the engine has can be bases", advice
    return State.OK, f"in reach: it has {PROBE_IMAGE}", ""


def _makes_bases() -> bool:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    try:
        debian_packages.machine_suite()
    except UnavailableError:
        return False
    return True


def _docker(client: Mapping[str, str], words: Sequence[str], timeout_s: float = CLIENT_S) -> str:
    """Return what a docker client prints.

    Raises:
        EngineError: it fails, or takes longer than ``timeout_s``.
    """
    try:
        return _run(["docker", *words], client, timeout_s)
    except subprocess.CalledProcessError as error:
        raise EngineError(f"`docker {' '.join(words[:2])}` failed", details=str(error.stderr).splitlines()) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"`docker {' '.join(words[:2])}` does not answer") from error


def _run(command: Sequence[str], environ: Mapping[str, str], timeout_s: float) -> str:
    done = subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=timeout_s
    )
    return done.stdout


# --- the machine


def _engine_disk(facts: _Facts) -> _Answer:
    root = Path(facts.wait(facts.info).root)
    host = facts.wait(facts.engine).host
    if (host and not host.startswith("unix:")) or not root.is_dir():
        return State.SKIP, f"{root} is on another machine", ""
    return _disk(root, "`docker buildx prune` and `docker image prune` make room")


def _project_disk(facts: _Facts) -> _Answer:
    return _disk(facts.project, "make room on this disk")


def _disk(folder: Path, advice: str) -> _Answer:
    free = shutil.disk_usage(folder).free
    state = State.FAIL if free < DISK_FAIL else State.WARN if free < DISK_WARN else State.OK
    return state, f"{free / 1e9:.1f} GB free at {folder}", "" if state is State.OK else advice


def _memory(facts: _Facts) -> _Answer:
    info = facts.wait(facts.info)
    jobs = nvcc_jobs(info.memory)
    found = f"{info.memory / 1e9:.1f} GB, {info.cpus} cores: room for {jobs} nvcc jobs of {JOB_MEMORY / 1e9:.0f} GB"
    if jobs >= info.cpus:
        return State.OK, found, ""
    return State.WARN, found, f"for large CUDA kernels set MAX_JOBS to {max(1, jobs)} in the recipe's environment"


def nvcc_jobs(memory: int) -> int:
    """Return how many nvcc jobs fit into so many bytes of memory."""
    return int(memory * (1 - RESERVE) / JOB_MEMORY)


# --- where packages come from


def _index(facts: _Facts) -> _Answer:
    try:
        where = package_index.configured()
        found = package_index.releases(
            where, PROBE_PACKAGE, sdist=False, ca_bundle=str(facts.ca_bundle or ""), timeout_s=NETWORK_S
        )
    except UnavailableError as error:
        said = "; ".join(error.details)
        if "CERTIFICATE" in said:
            return State.FAIL, f"{error.message} ({said})", "give your company's certificates with --ca-bundle FILE"
        advice = "see that the network, the proxy variables and pip's settings (`pip config list`) are right"
        return State.FAIL, f"{error.message} ({said})" if said else error.message, advice
    if not found:
        return State.WARN, f"{where.address} answers, but has no {PROBE_PACKAGE}", "see `pip config list`"
    return State.OK, f"{where.address} has {PROBE_PACKAGE} {found[-1]}", ""


def _mirror(facts: _Facts) -> _Answer:
    try:
        suite = debian_packages.machine_suite()
    except UnavailableError as error:
        return State.SKIP, error.message, ""
    try:
        listed = _run(["apt-get", "indextargets", "--format", debian_packages.TARGET_FORMAT], facts.environ, CLIENT_S)
        mirror = debian_packages.parse_targets(listed, suite)
    except (OSError, subprocess.SubprocessError) as error:
        return State.WARN, f"apt-get does not answer: {error}", "see what `apt-get update` says"
    except UnavailableError as error:
        return State.WARN, error.message, error.hint
    return State.OK, f"{suite} from {package_index.without_credentials(mirror.main)}", ""


def _certificates(facts: _Facts) -> _Answer:
    bundle = facts.ca_bundle
    if bundle is None:
        return State.SKIP, "no CA bundle given: build steps trust what their base trusts", ""
    named = next(
        (name for name in CA_VARIABLES if Path(facts.environ.get(name, "")).resolve() == bundle), "--ca-bundle"
    )
    where = f"{bundle}, named by {named}"
    try:
        text = bundle.read_text(encoding="utf-8", errors="replace")
        ssl.create_default_context(cafile=str(bundle))
    except (OSError, ssl.SSLError) as error:
        return State.FAIL, f"{where}: cannot be read ({error})", "give a PEM file with certificates as --ca-bundle FILE"
    return State.OK, f"{where}: {text.count('-----BEGIN CERTIFICATE-----')} certificates", ""


CHECKS: Mapping[str, Callable[[_Facts], _Answer]] = {
    "engine": _engine,
    "buildx": _buildx,
    "builder": _builder,
    "image store": _store,
    "emulation": _emulation,
    "engine's disk": _engine_disk,
    "project's disk": _project_disk,
    "memory": _memory,
    "image registry": _registry,
    "package index": _index,
    "package mirror": _mirror,
    "CA bundle": _certificates,
}
"""What is looked at, in the order in which it is told."""
