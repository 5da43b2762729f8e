"""The private engine: a Docker engine that bakery runs on a Debian machine without one.

Its programs are unpacked Debian packages in the cache folder, its images and build cache live in the data
folder, its sockets under ``/run/bakery``. Nothing is installed system-wide. See :mod:`bakery.engine.paths`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bakery.core.environment import for_stranger
from bakery.core.errors import EngineError, UnavailableError
from bakery.core.file_locks import locked_file
from bakery.core.inside import remove_tree
from bakery.engine import host as machine
from bakery.engine.debian_packages import Progress, machine_suite, unpack_bundle
from bakery.engine.paths import EnginePaths, engine_paths
from bakery.engine.private_engine_files import ENGINE_BUNDLE, Prefix, link_programs
from bakery.plan.values import Json
from wheel_audit.readers import json_of

GB = 10**9
MIN_CACHE_GB = 30
"""The build cache may use this much on any disk."""

START_TIMEOUT_S = 120.0
_SLOW_CONTAINERD = "timeout waiting for containerd to start"
"""dockerd's last message if containerd does not answer within 15 s. containerd first reads its whole database, which takes
longer on a cold, slow disk. The pages stay in memory, so another start is faster."""

STOP_TIMEOUT_S = 30.0
API_TIMEOUT_S = 5.0
_LARGEST_ANSWER = 16 << 20
REQUIREMENT = (
    "install Docker Engine 28 or newer with the buildx plugin 0.19 or newer, start it, and let this user reach it"
)


@dataclass(frozen=True)
class RunningEngine:
    """A private engine that answers: dockerd's process id, address (as for DOCKER_HOST), version, programs and folders."""

    pid: int
    host: str
    version: str
    prefix: Prefix
    paths: EnginePaths


class _ApiError(Exception):
    """The engine does not answer, or answers with an error."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=API_TIMEOUT_S)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _get(paths: EnginePaths, request: str) -> dict[str, Json]:
    """Return the engine's answer to a GET request over its socket: much faster than a client. Raises _ApiError."""
    connection = _UnixConnection(paths.socket)
    try:
        connection.request("GET", request)
        response = connection.getresponse()
        document = json_of(response.read(_LARGEST_ANSWER))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _ApiError(f"{paths.socket}: {error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK or not isinstance(document, dict):
        raise _ApiError(f"{paths.socket}: HTTP {response.status} {document}")
    return document


def install(progress: Progress, environ: Mapping[str, str] | None = None) -> Prefix:
    """Fetch the engine's programs, unless they are in the cache. Raises EngineError if that is not possible."""
    _require_capable_machine()
    try:
        return Prefix(unpack_bundle(engine_paths(environ), ENGINE_BUNDLE, progress, link_programs))
    except UnavailableError as error:
        raise EngineError(
            f"cannot fetch an engine: {error.message}", hint=error.hint or REQUIREMENT, details=error.details
        ) from error


def _require_capable_machine() -> None:
    """Raise EngineError unless a private engine can run here."""
    if os.geteuid() != 0:
        raise EngineError("a private engine needs root", hint=f"run as root, or {REQUIREMENT}")
    try:
        machine_suite()
    except UnavailableError as error:
        raise EngineError(f"no private engine here: {error.message}", hint=REQUIREMENT) from error


def start(prefix: Prefix, progress: Progress, environ: Mapping[str, str] | None = None) -> RunningEngine:
    """Start the private engine, with the environment ``environ``; return the running one if there is one.

    Raises EngineError if it cannot start; ``details`` is the tail of its log.
    """
    _require_capable_machine()
    paths = engine_paths(environ)
    with locked_file(paths.run / ".lock"):
        if running := status(environ):
            return running
        _end(paths)
        machine.prepare(progress)
        _write_configuration(paths, prefix)
        progress("starting dockerd")
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            pid = _spawn(paths, prefix, os.environ if environ is None else environ)
            if running := _wait(paths, pid, deadline, environ):
                return running
            progress("dockerd did not wait for its containerd; starting it again")


def _write_configuration(paths: EnginePaths, prefix: Prefix) -> None:
    paths.run.mkdir(parents=True, exist_ok=True)
    paths.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    disk = shutil.disk_usage(paths.data).total
    paths.config.write_text(json.dumps(daemon_configuration(paths, prefix, disk), indent=2) + "\n")
    paths.client.mkdir(parents=True, exist_ok=True)
    settings = {"cliPluginsExtraDirs": [str(prefix.plugins)]}
    (paths.client / "config.json").write_text(json.dumps(settings, indent=2) + "\n")


def daemon_configuration(paths: EnginePaths, prefix: Prefix, disk: int) -> dict[str, Json]:
    """Return the engine's daemon.json; ``disk``: the bytes of its disk."""
    return {
        "data-root": str(paths.data / "docker"),
        "exec-root": str(paths.exec_root),
        "pidfile": str(paths.pid_file),
        "hosts": [f"unix://{paths.socket}"],
        "features": {"containerd-snapshotter": True},
        "builder": {"gc": {"enabled": True, "policy": cache_policy(disk)}},
        "init-path": str(prefix.bin / "docker-init"),
        "userland-proxy-path": str(prefix.bin / "docker-proxy"),
    }


def cache_policy(disk: int) -> list[Json]:
    """Return the limits of the build cache on a disk of so many bytes: layers go first, then everything.

    A CUDA cell with torch takes about 20 GB. When the cache is over its limit, BuildKit removes what was used least often,
    which is the compiler cache of a new project. The engine's default rules, too, drop cache mounts first, beyond about
    4 GiB and after two days.
    """
    layers = max(MIN_CACHE_GB * GB, disk * 3 // 10)
    rule: dict[str, Json] = {"reservedSpace": "5GB", "minFreeSpace": "5GB"}
    return [
        {**rule, "filter": ["type=regular"], "maxUsedSpace": str(layers)},
        {**rule, "all": True, "maxUsedSpace": str(layers * 3 // 2)},
    ]


_FOR_DAEMON = (
    "DOCKER_",
    "BUILDKIT_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
"""Variables with which dockerd reaches registries."""


def _spawn(paths: EnginePaths, prefix: Prefix, environ: Mapping[str, str]) -> int:
    """Start dockerd detached from this process; return its process id."""
    # posix_spawn and not Popen: nothing waits for a daemon, and Popen warns of that when it is freed.
    # Two daemons would fight over docker0 and the firewall's DOCKER chains (even one without a bridge deletes
    # docker0), so a second one gets a separate network without connections.
    isolation = [] if paths.primary else ["unshare", "--net", "--"]
    search = f"{prefix.bin}:{environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    command = [*isolation, str(prefix.path / "usr/sbin/dockerd"), "--config-file", str(paths.config)]
    return os.posix_spawnp(
        command[0],
        command,
        # It lives on, and needs none of the tokens of the shell that started it. BuildKit clips a noisy step's log at
        # 200 KiB/s, and with it the error that ends it.
        for_stranger(
            environ,
            {"PATH": search, "BUILDKIT_STEP_LOG_MAX_SIZE": "-1", "BUILDKIT_STEP_LOG_MAX_SPEED": "-1"},
            _FOR_DAEMON,
        ),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(paths.log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _wait(paths: EnginePaths, pid: int, deadline: float, environ: Mapping[str, str] | None) -> RunningEngine | None:
    """Wait until the engine answers; None if it ended because containerd was slow and there is time for another start.

    Raises EngineError if it ended, or did not answer by the deadline (of the monotonic clock), or has no overlayfs.
    """
    reason = f"the engine did not answer within {START_TIMEOUT_S:.0f} s"
    while time.monotonic() < deadline:
        if running := status(environ):
            _require_overlay(paths)
            return running
        if os.waitpid(pid, os.WNOHANG)[0]:
            reason = "the engine ended as soon as it was started"
            break
        time.sleep(0.1)
    _end(paths)
    details = _tail(paths.log)
    if time.monotonic() < deadline and any(_SLOW_CONTAINERD in line for line in details):
        return None
    raise EngineError(reason, hint=f"see {paths.log}", details=details)


def _require_overlay(paths: EnginePaths) -> None:
    """Stop the engine and raise EngineError if it cannot stack layers where its data is."""
    try:
        driver = _get(paths, "/info").get("Driver")
    except _ApiError as error:
        raise EngineError(f"the engine does not answer: {error}", details=_tail(paths.log)) from error
    if driver != "overlayfs":
        _end(paths)
        raise EngineError(
            f"overlayfs does not work in {paths.data} (the engine chose {driver})",
            hint="set XDG_DATA_HOME to a folder on an ordinary disk filesystem",
        )


def _tail(path: Path, lines: int = 20) -> list[str]:
    """Return the last lines of a file; none if it cannot be read."""
    try:
        return path.read_text(errors="replace").splitlines()[-lines:]
    except OSError:
        return []


def stop(environ: Mapping[str, str] | None = None) -> bool:
    """Stop the private engine; return whether one was running. Raises EngineError if it does not end."""
    paths = engine_paths(environ)
    if not paths.run.is_dir():
        return False
    with locked_file(paths.run / ".lock"):
        return _end(paths)


def _end(paths: EnginePaths) -> bool:
    """End our dockerd, if there is one, and remove what a dead one left behind."""
    pid = engine_pid(paths)
    if pid is not None:
        _terminate(pid, lambda: engine_pid(paths) == pid)
    containerd_pid_file = paths.exec_root / "containerd" / "containerd.pid"
    # The containerd.pid of a killed dockerd may name another process by now, and dockerd would wait for its end.
    for leftover in (paths.pid_file, paths.socket, containerd_pid_file):
        leftover.unlink(missing_ok=True)
    return pid is not None


def _terminate(pid: int, alive: Callable[[], bool]) -> None:
    """End a process, by force after STOP_TIMEOUT_S. Raises EngineError if it is still there after that."""
    for number, patience in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if not alive():
                return
            time.sleep(0.05)
    raise EngineError(f"dockerd (process {pid}) does not end", hint="end it by hand and try again")


def engine_pid(paths: EnginePaths) -> int | None:
    """Return the process id of our dockerd, or None if the pid file is missing, stale or another's."""
    try:
        pid = int(paths.pid_file.read_text())
    except (OSError, ValueError):
        return None
    return pid if _engine_command(paths, pid) else None


def _engine_command(paths: EnginePaths, pid: int) -> list[str]:
    """Return the command line of a process if it is the private dockerd, otherwise an empty list."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []
    return words if Path(words[0]).name == "dockerd" and str(paths.config) in words else []


def status(environ: Mapping[str, str] | None = None) -> RunningEngine | None:
    """Return the private engine if it runs and answers, else None."""
    paths = engine_paths(environ)
    pid = engine_pid(paths)
    if pid is None:
        return None
    try:
        version = _get(paths, "/version").get("Version")
    except _ApiError:
        return None
    # The programs' folder is in its command line, so no state file can be out of date.
    command = _engine_command(paths, pid)
    if not command:
        return None
    prefix = Prefix(Path(command[0]).parents[2])
    return RunningEngine(pid, f"unix://{paths.socket}", str(version), prefix, paths)


def environment(engine: RunningEngine, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return PATH, DOCKER_HOST and DOCKER_CONFIG with which docker clients in ``environ`` use a private engine."""
    env = os.environ if environ is None else environ
    entries = [entry for entry in env.get("PATH", os.defpath).split(":") if entry != str(engine.prefix.bin)]
    return {
        "PATH": ":".join([str(engine.prefix.bin), *entries]),
        "DOCKER_HOST": engine.host,
        "DOCKER_CONFIG": str(engine.paths.client),
    }


def remove(environ: Mapping[str, str] | None = None) -> None:
    """Stop the private engine and delete its images, build cache and state (not the downloads).

    Raises EngineError if it does not end, or something of it is still in use; OSError if something cannot be deleted.
    """
    paths = engine_paths(environ)
    stop(environ)
    for folder in (paths.data, paths.run):
        if folder.is_dir():
            # Never delete through a mount: its files may belong to something else.
            machine.unmount_below(folder)
            remove_tree(folder)
            if folder.exists():
                # Raises what hinders it.
                shutil.rmtree(folder)
