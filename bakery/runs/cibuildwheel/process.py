"""Builds tasks with cibuildwheel: one process for each wheel, which also tests it for every cell that shares it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from bakery.core import child
from bakery.core.addresses import hidden
from bakery.core.environment import for_stranger, for_tool
from bakery.core.errors import BakeError, EngineError
from bakery.plan.delivery import Cibuildwheel
from bakery.runs.buildx.bake_outcome import BakeOutcome, Failure, TargetOutcome
from bakery.runs.buildx.rawjson import lines_of
from bakery.runs.cell_tasks import CellState, CellTask
from bakery.runs.journal import Result
from bakery.runs.processes import Signals
from bakery.runs.secrets.mask import Mask
from bakery.toolchains import programs
from wheel_audit.environment import CleanEnvironment

MAX_SHOWN_LINES = 30
_MACHINE_VARIABLES = (
    "CIBW_CACHE_PATH",
    "CIBW_CONTAINER_ENGINE",
    "CIBW_DEBUG_KEEP_CONTAINER",
    "CIBW_ENVIRONMENT_PASS_LINUX",
)
"""Variables about this machine; all others would change the plan."""

_FOR_BUILDS = (
    *("CIBW_", "PIP_", "UV_INDEX_", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_NATIVE_TLS", "UV_CACHE_DIR"),
    *("SSL_CERT_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("GITHUB_ACTIONS", "RUNNER_OS", "RUNNER_ARCH", "RUNNER_TEMP", "IMAGEOS", "PYTHONLOCATION", "SOURCE_DATE_EPOCH"),
    *("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "AR", "LD", "NM", "RANLIB", "STRIP", "FC", "ARCHFLAGS"),
    *("SDKROOT", "DEVELOPER_DIR", "MACOSX_DEPLOYMENT_TARGET", "HOMEBREW_PREFIX", "PKG_CONFIG_", "CMAKE_", "MAKEFLAGS"),
    *("INCLUDE", "LIB", "LIBPATH", "VCINSTALLDIR", "VCTOOLSINSTALLDIR", "VCTOOLSVERSION", "VSINSTALLDIR", "VSCMD_"),
    *("VISUALSTUDIOVERSION", "WINDOWSSDKDIR", "WINDOWSSDKVERSION", "WINDOWSLIBPATH", "UCRTVERSION", "MSSDK"),
    *(
        "UNIVERSALCRTSDKDIR",
        "DISTUTILS_USE_SDK",
        "MAX_JOBS",
        "CUDA_",
        "RUSTUP_",
        "RUSTFLAGS",
        "CARGO_HOME",
        "JAVA_HOME",
    ),
)
"""Variables that builds on macOS and Windows need. pip's may have the password of the index."""

_INSTALL = "python -m pip install 'wheel-bakery[cibuildwheel]'"


@dataclass(frozen=True, slots=True)
class Build:
    """One wheel and the cells that use it.

    Attributes:
        identifiers: the one to build, then those that only test that wheel.
        root: the working directory.
        timeout_s: time limit in seconds; None for no limit.
        create_args: of ``docker create``, for containers of Linux.
        system: ``linux``, ``macos`` or ``windows``.
        mask: hides credentials in its output.
    """

    arguments: tuple[str, ...]
    identifiers: tuple[str, ...]
    root: Path
    output: Path
    log: Path
    tested: bool
    timeout_s: float | None
    create_args: tuple[str, ...]
    system: str
    mask: Mask = field(default_factory=lambda: Mask({}))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a build ended; ``failure``: its last lines; ``late``: at its time limit; ``stopped``: with `Stop`."""

    failure: str
    late: bool
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends a build from another thread: ``requested`` lets it remove its container, ``killed`` does not wait for it."""

    requested: threading.Event = field(default_factory=threading.Event)
    killed: threading.Event = field(default_factory=threading.Event)


def command(environ: Mapping[str, str]) -> list[str]:
    """Return the command of cibuildwheel: of this Python, else on PATH. Raises EngineError if there is none."""
    if find_spec("cibuildwheel") is not None:
        # -P: nothing in the working folder is imported.
        return [sys.executable, "-P", "-m", "cibuildwheel"]
    program = shutil.which("cibuildwheel", path=environ.get("PATH"))
    if program is None:
        raise EngineError("cibuildwheel is not installed", hint=f"install it: {_INSTALL}")
    return [program]


def build(request: Build, environ: Mapping[str, str], line: Callable[[str], None], stop: Stop) -> Ended:
    """Build and test one wheel. Raises EngineError if cibuildwheel is not installed or cannot be started."""
    argv = [*command(environ), "--output-dir", str(request.output), *request.arguments]
    request.output.mkdir(parents=True, exist_ok=True)
    request.log.parent.mkdir(parents=True, exist_ok=True)
    tail: list[str] = []
    with request.log.open("w", encoding="utf-8") as log:
        try:
            process = subprocess.Popen(
                argv,
                cwd=request.root,
                env=build_environment(request, environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise EngineError(f"cannot start {argv[0]}: {error.strerror}", hint=f"install it: {_INSTALL}") from error
        late = threading.Event()

        def end_early() -> None:
            if not stop.requested.wait(request.timeout_s):
                late.set()
            # Its own handlers remove the container.
            process.terminate()
            stop.killed.wait()
            process.kill()

        threading.Thread(target=end_early, daemon=True).start()
        stopped = False
        try:
            assert process.stdout is not None
            for shown in lines_of(process.stdout):
                text = request.mask.hide(shown.encode(errors="surrogateescape")).decode(errors="replace")
                log.write(f"{text}\n")
                line(text)
                tail = [*tail[1 - MAX_SHOWN_LINES :], text]
            code = process.wait()
            stopped = stop.requested.is_set()
        except BaseException:
            stop.requested.set()
            process.wait()
            raise
        finally:
            # Ends the thread; a process that was waited for gets no signal.
            stop.requested.set()
            if process.poll() is not None:
                stop.killed.set()
    failure = "" if code == 0 else "\n".join(tail) or f"cibuildwheel ended with exit code {code}"
    return Ended(failure, bool(code) and late.is_set(), bool(code) and stopped)


def build_environment(request: Build, environ: Mapping[str, str]) -> CleanEnvironment:
    """Return the environment of cibuildwheel.

    On macOS and Windows, the project's code gets it: nothing but what builds need. On Linux, that code is in a container,
    which gets what ``CIBW_ENVIRONMENT_PASS_LINUX`` names.
    """
    given = {name: text for name, text in environ.items() if not name.startswith("CIBW_") or name in _MACHINE_VARIABLES}
    variables = {"CIBW_BUILD": " ".join(request.identifiers)}
    if not request.tested:
        variables["CIBW_TEST_SKIP"] = "*"
    if request.system != "linux":
        return for_stranger(given, variables, _FOR_BUILDS)
    # By default, it mounts / of this machine into the container. The last value wins.
    engine = given.get("CIBW_CONTAINER_ENGINE", "docker").replace("create-args:", "create_args:")
    arguments = f"; create_args: {' '.join(request.create_args)}" if request.create_args else ""
    variables["CIBW_CONTAINER_ENGINE"] = f"{engine}{arguments}; disable_host_mount: true"
    return for_tool(given, variables)


def fetch(source: Cibuildwheel, folder: Path, environ: Mapping[str, str]) -> None:
    """Fetch a source outside the project into ``folder``. Raises BakeError if that is not possible."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if source.git:
        address, reference = source.git
        _run(["git", "clone", "--quiet", address, str(folder)], environ)
        _run(["git", "-C", str(folder), "checkout", "--quiet", reference], environ)
        _run(["git", "-C", str(folder), "submodule", "update", "--quiet", "--init", "--recursive"], environ)
    elif source.sdist:
        (folder.parent / "packages").mkdir(exist_ok=True)
        for name, text in programs.texts("packages").items():
            (folder.parent / name).write_text(text, encoding="utf-8")
        program = folder.parent / "packages"
        _run([sys.executable, str(program), "fetch", source.sdist, str(folder)], environ)


_FETCH_S = 3600
"""Seconds that fetching a source may take."""

_QUIET = {"PYTHONSAFEPATH": "1", "GIT_TERMINAL_PROMPT": "0"}
"""No module of the working folder is imported, and git asks nobody."""


def _run(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    try:
        done = child.completed(argv, env=for_tool(environ, _QUIET), seconds=_FETCH_S)
    except subprocess.TimeoutExpired as error:
        raise BakeError(
            f"{argv[0]} does not end within {_FETCH_S} s", hint="look at the network, and try again"
        ) from error
    except OSError as error:
        raise BakeError(f"cannot start {argv[0]}: {error.strerror}", hint=f"install {argv[0]}") from error
    if done.returncode:
        lines = hidden(done.stderr + done.stdout).strip().splitlines()[-MAX_SHOWN_LINES:]
        raise BakeError("the source cannot be fetched", details=lines, hint="wheel-bakery doctor looks at the network")


MAX_TURN_S = 0.1


@dataclass(slots=True)
class _Running:
    """A running build."""

    task: CellTask
    build: Build
    stop: Stop
    future: Future[Ended]
    started: float


@dataclass(slots=True)
class CibuildwheelBackend:
    """A backend with cibuildwheel: task → its build; ``line`` receives each line of output, in a thread of its own."""

    builds: Mapping[str, Build]
    environment: Mapping[str, str]
    line: Callable[[str], None]
    signals: Signals
    pool: ThreadPoolExecutor
    _running: dict[str, _Running] = field(default_factory=dict, init=False)

    def start(self, task: CellTask, state: CellState, *, cached: bool) -> None:
        """Start cibuildwheel."""
        request, stop = self.builds[task.name], Stop()
        future = self.pool.submit(build, request, self.environment, self.line, stop)
        self._running[task.name] = _Running(task, request, stop, future, time.monotonic())

    def turn(self) -> list[tuple[str, BakeOutcome]]:
        """Return the tasks that ended; a first signal ends all, a second one kills them. Raises EngineError."""
        if self.signals.arrived:
            self.stop()
            if len(self.signals.arrived) > 1:
                for running in self._running.values():
                    running.stop.killed.set()
        wait([running.future for running in self._running.values()], timeout=MAX_TURN_S)
        ended = [name for name, running in self._running.items() if running.future.done()]
        # Ctrl-C reaches cibuildwheel, too, which may end before it is asked to.
        interrupted = bool(self.signals.arrived)
        return [(name, _outcome(self._running.pop(name), interrupted=interrupted)) for name in ended]

    def stop(self, names: Collection[str] | None = None) -> None:
        """End some tasks, or all of them."""
        for name, running in self._running.items():
            if names is None or name in names:
                running.stop.requested.set()

    def recovery(self, state: CellState, outcome: BakeOutcome) -> None:
        """Return None: cibuildwheel uses no layer cache."""

    def stage_keys(self, task: CellTask) -> Mapping[str, str]:
        """Return nothing: tasks share no steps."""
        return {}

    def error(self, task: CellTask, outcome: BakeOutcome) -> BakeError:
        """Return the error of a build that failed."""
        (failure,) = outcome.failures
        return BakeError(f"{task.name}: {failure.error}", details=failure.tail, hint=failure.hint)


def _outcome(running: _Running, *, interrupted: bool) -> BakeOutcome:
    ended, log = running.future.result(), running.build.log
    stopped = ended.stopped or (interrupted and bool(ended.failure))
    names = tuple(target.name for target in running.task.targets)
    failures: tuple[Failure, ...] = ()
    if ended.late:
        failures = (Failure(names, "", "the time limit was reached", (), log, "increase it with --cell-timeout"),)
    elif ended.failure and not stopped:
        lines = tuple(ended.failure.splitlines())
        failures = (Failure(names, "", "cibuildwheel failed", lines, log, f"the log: {log}"),)
    result = Result.FAILED if failures else Result.CANCELED if stopped else Result.DONE
    seconds = time.monotonic() - running.started
    targets = {name: TargetOutcome(result, seconds, steps=1, cached=0, log=log, metadata={}) for name in names}
    return BakeOutcome(targets, failures)
