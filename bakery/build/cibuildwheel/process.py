"""Runs cibuildwheel: finds it, fetches the source, builds one wheel at a time, keeps a log of each."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from bakery.core.errors import BakeError, EngineError
from bakery.plan.options import Cibuildwheel
from bakery.toolchains import programs

SHOWN = 30
"""Lines of the log that a failure shows."""

_MACHINE_VARIABLES = ("CIBW_CACHE_PATH", "CIBW_CONTAINER_ENGINE", "CIBW_DEBUG_KEEP_CONTAINER", "CIBW_ENVIRONMENT_PASS_LINUX")
"""Its variables that are about this machine; all others would change the plan."""

_INSTALL = "python -m pip install 'wheel-bakery[cibuildwheel]'"


@dataclass(frozen=True, slots=True)
class Build:
    """One wheel and the cells that it serves.

    Attributes:
        arguments: of cibuildwheel.
        identifiers: what it builds first, then what only tests that wheel.
        root: the folder that it runs in.
        output: the folder that receives the wheel.
        log: receives all that is printed.
        tested: the test commands are run.
        timeout_s: seconds that it may take, None for any.
        create_args: of ``docker create``, for containers of Linux.
    """

    arguments: tuple[str, ...]
    identifiers: tuple[str, ...]
    root: Path
    output: Path
    log: Path
    tested: bool
    timeout_s: float | None
    create_args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a build ended.

    Attributes:
        failure: the last lines of a build that failed; empty for one that did not.
        late: it was ended because its time was over.
        stopped: it was ended with its `Stop`.
    """

    failure: str
    late: bool
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends a build from another thread.

    Attributes:
        requested: set to end it; cibuildwheel then removes its container.
        killed: set to kill it, once its end was requested.
    """

    requested: threading.Event = field(default_factory=threading.Event)
    killed: threading.Event = field(default_factory=threading.Event)


def command(environ: Mapping[str, str]) -> list[str]:
    """Return how cibuildwheel is called: this Python's own, else the one on PATH.

    Raises:
        EngineError: there is none.
    """
    if find_spec("cibuildwheel") is not None:
        # -P: nothing in the working folder is imported.
        return [sys.executable, "-P", "-m", "cibuildwheel"]
    program = shutil.which("cibuildwheel", path=environ.get("PATH"))
    if program is None:
        raise EngineError("cibuildwheel is not installed", hint=f"install it: {_INSTALL}")
    return [program]


def build(request: Build, environ: Mapping[str, str], line: Callable[[str], None], stop: Stop) -> Ended:
    """Build and test one wheel.

    Args:
        line: receives each line that cibuildwheel prints.
        stop: ends it early.

    Raises:
        EngineError: cibuildwheel is not installed, or cannot be started.
    """
    argv = [*command(environ), "--output-dir", str(request.output), *request.arguments]
    request.output.mkdir(parents=True, exist_ok=True)
    request.log.parent.mkdir(parents=True, exist_ok=True)
    tail: list[str] = []
    with request.log.open("w", encoding="utf-8") as log:
        try:
            process = subprocess.Popen(
                argv,
                cwd=request.root,
                env=_environment(request, environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
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
            for text in process.stdout:
                log.write(text)
                line(text.rstrip("\n"))
                tail = [*tail[1 - SHOWN :], text.rstrip("\n")]
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


def _environment(request: Build, environ: Mapping[str, str]) -> dict[str, str]:
    variables = {name: value for name, value in environ.items() if not name.startswith("CIBW_") or name in _MACHINE_VARIABLES}
    variables["CIBW_BUILD"] = " ".join(request.identifiers)
    if not request.tested:
        variables["CIBW_TEST_SKIP"] = "*"
    if request.create_args and "CIBW_CONTAINER_ENGINE" not in variables:
        variables["CIBW_CONTAINER_ENGINE"] = f"docker; create_args: {' '.join(request.create_args)}"
    return variables


def fetch(source: Cibuildwheel, folder: Path, environ: Mapping[str, str]) -> None:
    """Put a source that is no folder of the project into ``folder``.

    Raises:
        BakeError: it cannot be had.
    """
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
        # No module of the working folder is imported.
        _run([sys.executable, str(program), "fetch", source.sdist, str(folder)], {**environ, "PYTHONSAFEPATH": "1"})


def _run(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            argv, env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise BakeError(f"cannot start {argv[0]}: {error.strerror}", hint=f"install {argv[0]}") from error
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines()[-SHOWN:]
        raise BakeError("the source cannot be fetched", details=lines, hint="wheel-bakery doctor looks at the network")
