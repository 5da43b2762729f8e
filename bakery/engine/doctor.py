"""`wheel-bakery doctor`: checks whether this machine can build wheels, and gives advice.

The checks run in parallel. A check without a result after `LIMIT_S` seconds is reported as such, so a dead engine, a
silent registry or an unreachable name server delays nothing.
"""

from __future__ import annotations

import shutil
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Thread
from typing import NamedTuple, TypeVar

from bakery.core.addresses import without_credentials
from bakery.core.errors import BakeryError, EngineError, UnavailableError
from bakery.core.names import CA_VARIABLES
from bakery.engine import debian_packages, discover, package_index
from bakery.engine.client import Engine, EngineInfo, exports
from bakery.engine.discover import EngineAddress
from bakery.engine.qemu import emulated
from bakery.plan.values import Json

LIMIT_S = 7.0
"""Seconds after which all checks end."""

CLIENT_S = 2.5
"""Seconds that a call of the docker client or of apt may take: two calls must fit into `LIMIT_S`."""

NETWORK_S = 4.0
"""Seconds that a registry or an index may take to answer."""

DISK_WARN = 10e9
DISK_FAIL = 2e9
"""Free bytes on a disk. A toolkit's image, its build cache and a few wheels need DISK_WARN."""

JOB_MEMORY = 5e9
"""Bytes of memory that one nvcc job needs for large kernels."""

RESERVE = 0.15
"""Fraction of the memory that compilers should leave to other programs."""

PROBE_IMAGE = "debian:bookworm-slim"
PROBE_PACKAGE = "pip"


class State(StrEnum):
    """Severity of a result: with ``fail`` no wheel can be built, with ``warn`` some cannot."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Builder:
    """The builder that buildx uses by default, the platforms of its nodes, and the errors of nodes that do not answer."""

    name: str
    driver: str
    platforms: tuple[str, ...]
    faults: tuple[str, ...] = ()


_T = TypeVar("_T")


class Answer(NamedTuple):
    """What a check found: one line, and advice if something is to be done."""

    state: State
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of the check ``name``, as `Answer`."""

    name: str
    state: State
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Input of the checks; `deadline`, on the monotonic clock, ends all of them."""

    environ: Mapping[str, str]
    ca_bundle: Path | None
    project: Path
    deadline: float
    engine: Future[EngineAddress] = field(default_factory=Future)
    info: Future[EngineInfo] = field(default_factory=Future)
    builder: Future[Builder] = field(default_factory=Future)

    def wait(self, future: Future[_T]) -> _T:
        """Return a result. Raises TimeoutError if the deadline passes, or the error that the work raised."""
        return future.result(max(0.0, self.deadline - time.monotonic()))

    def client(self) -> Engine:
        """Return a client of the engine."""
        return Engine({**self.environ, **self.wait(self.engine).environment})


# --- the engine


def _engine(facts: Facts) -> Answer:
    try:
        engine = facts.wait(facts.engine)
    except EngineError as error:
        return Answer(State.FAIL, _with_details(error), error.hint)
    owner = "bakery's private engine" if engine.source == "private" else "this user's engine"
    return Answer(State.OK, f"{owner}, version {engine.version}{f', at {engine.host}' if engine.host else ''}")


def _buildx(facts: Facts) -> Answer:
    # `discover.find` refuses a client without buildx, or with one that is too old.
    return Answer(State.OK, f"version {facts.wait(facts.engine).buildx}")


def _with_details(error: BakeryError) -> str:
    return f"{error.message} ({'; '.join(error.details)})" if error.details else error.message


def _current_builder(client: Engine) -> Builder:
    """Return the builder that bakes use. Raises EngineError if buildx does not answer, or has none."""
    name = client.environment.get("BUILDX_BUILDER")
    if document := client.builder(name, timeout_s=CLIENT_S):
        return _parse_builder(document)
    if name:
        raise EngineError(
            f"BUILDX_BUILDER is {name}, and buildx has no such builder", hint="`docker buildx ls` lists them"
        )
    raise EngineError("buildx has no current builder")


def _parse_builder(document: Mapping[str, Json]) -> Builder:
    """Read one line of ``docker buildx ls --format '{{json .}}'``."""
    nodes = [node for node in _list(document.get("Nodes")) if isinstance(node, dict)]
    platforms = [str(text).rstrip("*") for node in nodes for text in _list(node.get("Platforms"))]
    faults = [str(fault) for fault in (document.get("Err"), *(node.get("Err") for node in nodes)) if fault]
    name, driver = (str(document.get(key) or "") for key in ("Name", "Driver"))
    return Builder(name, driver, tuple(dict.fromkeys(platforms)), tuple(faults))


def _list(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else []


def _builder(facts: Facts) -> Answer:
    facts.wait(facts.engine)
    try:
        builder = facts.wait(facts.builder)
    except EngineError as error:
        return Answer(State.FAIL, _with_details(error), error.hint)
    text = f"{builder.name}, driver {builder.driver}: {', '.join(builder.platforms) or 'no platform known yet'}"
    if builder.faults:
        advice = "choose another one: `docker buildx use default`"
        return Answer(State.FAIL, f"{text} ({'; '.join(builder.faults)})", advice)
    if builder.driver != "docker":
        advice = "for bases that are made on this machine, use the engine's own builder: `docker buildx use default`"
        return Answer(State.WARN, f"{text}; it does not see the engine's images", advice)
    return Answer(State.OK, text)


def _store(facts: Facts) -> Answer:
    store, driver = facts.wait(facts.info).store, facts.wait(facts.builder).driver
    kinds = exports(driver, store)
    text = f"{store}, driver {driver}: exports {', '.join(sorted(kinds))} caches"
    if len(kinds) > 1:
        return Answer(State.OK, text)
    advice = 'set {"features": {"containerd-snapshotter": true}} in daemon.json, or use a docker-container builder'
    return Answer(State.WARN, text, advice)


def _emulation(facts: Facts) -> Answer:
    platforms = facts.wait(facts.builder).platforms
    is_arm = facts.wait(facts.info).architecture in ("aarch64", "arm64")
    other, program = ("amd64", "qemu-x86_64") if is_arm else ("arm64", "qemu-aarch64")
    if f"linux/{other}" in platforms:
        return Answer(State.OK, f"linux/{other}: the builder has it")
    if emulated(f"linux/{other}"):
        return Answer(State.OK, f"linux/{other}: {program} is registered with the kernel")
    advice = (
        f"only needed for wheels of that platform: `wheel-bakery engine emulate linux/{other}` as root on Debian; "
        f"with access to an image registry: `docker run --privileged --rm tonistiigi/binfmt --install {other}`"
    )
    return Answer(State.WARN, f"linux/{other}: this machine cannot run its programs", advice)


def _registry(facts: Facts) -> Answer:
    try:
        facts.client().run("buildx", "imagetools", "inspect", "--raw", PROBE_IMAGE, timeout_s=NETWORK_S)
    except EngineError:
        facts.wait(facts.engine)  # raises if there is no engine
        if debian_packages.can_make_bases():
            return Answer(State.SKIP, "not reachable: Debian bases are made from this machine's package mirror")
        advice = "load the base images (`docker load`), or name a mirror in daemon.json (registry-mirrors)"
        return Answer(State.WARN, "not reachable: only images that the engine has can be bases", advice)
    return Answer(State.OK, f"reachable: it has {PROBE_IMAGE}")


# --- the machine


def _engine_disk(facts: Facts) -> Answer:
    root = Path(facts.wait(facts.info).root)
    host = facts.wait(facts.engine).host
    if (host and not host.startswith("unix:")) or not root.is_dir():
        return Answer(State.SKIP, f"{root} is on another machine")
    return _disk(root, "free space with `docker buildx prune` and `docker image prune`")


def _disk(folder: Path, advice: str) -> Answer:
    free = shutil.disk_usage(folder).free
    state = State.FAIL if free < DISK_FAIL else State.WARN if free < DISK_WARN else State.OK
    return Answer(state, f"{free / 1e9:.1f} GB free at {folder}", "" if state is State.OK else advice)


def _memory(facts: Facts) -> Answer:
    info = facts.wait(facts.info)
    jobs = int(info.memory * (1 - RESERVE) / JOB_MEMORY)
    text = f"{info.memory / 1e9:.1f} GB, {info.cpus} cores: room for {jobs} nvcc jobs of {JOB_MEMORY / 1e9:.0f} GB"
    if jobs >= info.cpus:
        return Answer(State.OK, text)
    advice = f"for large CUDA kernels set MAX_JOBS to {max(1, jobs)} in the recipe's environment"
    return Answer(State.WARN, text, advice)


# --- where packages come from


def _index(facts: Facts) -> Answer:
    ca_bundle = str(facts.ca_bundle or "")
    try:
        index = package_index.configured()
        versions = package_index.releases(index, PROBE_PACKAGE, sdist=False, ca_bundle=ca_bundle, timeout_s=NETWORK_S)
    except UnavailableError as error:
        advice = "check the network, the proxy variables and pip's settings (`pip config list`)"
        if any("CERTIFICATE" in line for line in error.details):
            advice = "name a file with your company's certificates: --ca-bundle FILE"
        return Answer(State.FAIL, _with_details(error), advice)
    if not versions:
        return Answer(State.WARN, f"{index.address} answers, but has no {PROBE_PACKAGE}", "see `pip config list`")
    return Answer(State.OK, f"{index.address} has {PROBE_PACKAGE} {versions[-1]}")


def _mirror(facts: Facts) -> Answer:
    suite = ""
    try:
        suite = debian_packages.machine_suite()
        mirror = debian_packages.configured_mirror(suite, CLIENT_S)
    except UnavailableError as error:
        return Answer(State.WARN, error.message, error.hint) if suite else Answer(State.SKIP, error.message)
    return Answer(State.OK, f"{suite} from {without_credentials(mirror[''])}")


def _certificates(facts: Facts) -> Answer:
    bundle = facts.ca_bundle
    if bundle is None:
        return Answer(State.SKIP, "none given: build steps trust the certificates of their base")
    variables = (name for name in CA_VARIABLES if Path(facts.environ.get(name, "")).resolve() == bundle)
    title = f"{bundle}, named by {next(variables, '--ca-bundle')}"
    try:
        text = bundle.read_text(encoding="utf-8", errors="replace")
        ssl.create_default_context(cafile=str(bundle))
    except (OSError, ssl.SSLError) as error:
        advice = "name a PEM file with certificates: --ca-bundle FILE"
        return Answer(State.FAIL, f"{title}: cannot be read ({error})", advice)
    return Answer(State.OK, f"{title}: {text.count('-----BEGIN CERTIFICATE-----')} certificates")


CHECKS: Mapping[str, Callable[[Facts], Answer]] = {
    "engine": _engine,
    "buildx": _buildx,
    "builder": _builder,
    "image store": _store,
    "emulation": _emulation,
    "engine's disk": _engine_disk,
    "project's disk": lambda facts: _disk(facts.project, "free space on this disk"),
    "memory": _memory,
    "image registry": _registry,
    "package index": _index,
    "package mirror": _mirror,
    "CA bundle": _certificates,
}
"""The checks, in the order of the report."""


# --- all of them


def diagnose(environ: Mapping[str, str], ca_bundle: Path | None) -> tuple[Diagnosis, ...]:
    """Run all checks. This takes at most `LIMIT_S` seconds and never fails."""
    facts = Facts(environ, ca_bundle, Path.cwd(), time.monotonic() + LIMIT_S)
    _start(facts.engine, lambda: discover.find(environ, timeout_s=CLIENT_S))
    _start(facts.info, lambda: facts.client().info())
    _start(facts.builder, lambda: _current_builder(facts.client()))
    running = [_start(Future(), partial(_run_check, name, facts)) for name in CHECKS]
    return tuple(_result(facts, name, future) for name, future in zip(CHECKS, running, strict=True))


def _start(future: Future[_T], work: Callable[[], _T]) -> Future[_T]:
    """Start ``work`` in a thread."""
    # No pool: when it exits, the interpreter waits for the threads of a pool, and a name lookup cannot be stopped.

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future


def _run_check(name: str, facts: Facts) -> Diagnosis:
    try:
        answer = CHECKS[name](facts)
    except EngineError as error:
        if facts.engine.done() and facts.engine.exception():
            # The check of the engine has the reason.
            return Diagnosis(name, State.SKIP, "needs an engine")
        answer = Answer(State.WARN, "; ".join((error.message, *error.details)), error.hint)
    # Output of other programs may have several lines.
    return Diagnosis(name, answer.state, " ".join(answer.text.split()), answer.advice)


def _result(facts: Facts, name: str, future: Future[Diagnosis]) -> Diagnosis:
    try:
        return facts.wait(future)
    except TimeoutError:
        # Without an engine nothing can be built; everything else may still be good enough.
        state = State.FAIL if name == "engine" else State.WARN
        return Diagnosis(name, state, f"no answer within {LIMIT_S:.0f} s", "try again when this machine is less busy")
    except (BakeryError, OSError, ValueError) as error:
        return Diagnosis(name, State.WARN, f"cannot be checked: {error}", "report this if it happens again")
