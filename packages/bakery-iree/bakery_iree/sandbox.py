"""Runs a program in a container that can only compute: files go in through one pipe and come out through another.

The container has no network, no capabilities, no new privileges, the user nobody, a read-only root, one small memory
file system, and limits on memory, processes, cores and time. Nothing of this machine is mounted, so this also works with
a remote engine.

Each pipe carries a tar: the files of the program's folder, and the files that it leaves in ``out``. The second tar is
untrusted data: only plain files with expected names are accepted, up to a size limit.

The program cannot outlive its time limit. The first process of the container belongs to another user, so the program can
neither signal nor trace it, and the kernel ends the whole container with it. It ends when its standard input is closed:
bakery closes it when the time is over, and the kernel closes it when bakery is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bakery.core.errors import EngineError, OutputError
from bakery.engine.client import DOCTOR, ClientError, Engine
from bakery.plan.values import Json
from bakery.runs.processes import caught
from bakery_iree import programs
from bakery_iree.container_io import Receiver, Tail, pack, unpack
from wheel_audit.plain_files import read_plain
from wheel_audit.readers import MOST_ENTRIES, json_of

if TYPE_CHECKING:
    from python_on_whales import Container
    from python_on_whales.components.container.cli_wrapper import ContainerListFilter

LABEL = "bakery.sandbox"
"""Label of every container: the process that runs it, see `_owner`."""

FOLDER = "/work"
"""The memory file system, the only place where a program can write."""

USER = 65534
"""The user of the program: nobody, in every image."""

WATCHER = 65533
"""The user of the container's first process. No other process or file belongs to it."""

RESULT = "result.json"
"""The output file of `Sandbox.run_program`."""

_LARGEST_RESULT = 1 << 20
_LARGEST_ITEM = 1024
"""Bytes of that file: the ends of 500 long logs; and more for each call, comparison or repetition that it describes."""

_ENTRIES = 16
"""Values of each of these; iree-benchmark-module 3.13.0 writes 13."""

GRACE_S = 5
"""Seconds between SIGTERM and SIGKILL when the time is over."""

CALL_S = 300
"""Seconds that one call of a function may take."""

_START_S = 300
"""Seconds that docker may take to start and to end a container, besides the program's own time."""

_LATE_S = 5.0
"""Seconds after the time limit and `GRACE_S` until the first output must arrive."""

_RECEIVE_S = 120.0
"""Seconds that reading the output may take from then on."""

_TIMED_OUT = 124
"""Exit code of timeout(1)."""

_WATCH = 'echo; exec timeout -s KILL "$LIFE" cat >/dev/null'
"""The first process of the container. Its time limit is for a remote engine that does not notice the end of bakery."""

_BEGUN = b"\0begun\n"
"""What `_INSIDE` prints before the program starts."""

_INSIDE = f"""
cd {FOLDER} && tar -xf - && mkdir -p out || exit 125
printf '\\0begun\\n' >&2
began=$(date +%s)
timeout -k "$GRACE" "$LIMIT" "$@" >&2 </dev/null
code=$?
[ $code -ne 137 ] || [ $(($(date +%s) - began)) -lt "$LIMIT" ] || code={_TIMED_OUT}
tar -cf - out
exit $code
"""
"""Runs the program, as its user. A program can stop this script; bakery then ends the container."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a container; sizes are in bytes.

    Attributes:
        memory: of the program and of its files together.
        files: of its files: inputs, and those that it writes.
        processes: processes and threads.
        cores: CPU cores that it may use, as ``0-3,6``; empty for all.
        seconds: run time of the program.
        output: of its output files.
    """

    memory: int = 4 * 1024**3
    files: int = 2 * 1024**3
    processes: int = 256
    cores: str = ""
    seconds: int = 600
    output: int = 1024**3

    @classmethod
    def for_files(cls, files: Mapping[str, Path | bytes], seconds: int, cores: str = "") -> Limits:
        """Return the default limits, with space for input files and results."""
        inputs = sum(len(item) if isinstance(item, bytes) else item.stat().st_size for item in files.values())
        space = inputs + cls().output
        return cls(memory=cls().memory + space, files=space, cores=cores, seconds=seconds)


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended: its exit code (128 plus the number of the signal that ended it), its output files by name,
    and the end of its log.
    """

    code: int
    timed_out: bool
    files: Mapping[str, Path]
    log: str

    def answer(self, items: int = 0) -> Any:
        """Return the JSON in `RESULT`, which nobody has checked. Raises KeyError, OSError or ValueError.

        ``items``: how many calls, comparisons or repetitions it describes.
        """
        data = read_plain(self.files[RESULT], _LARGEST_RESULT + _LARGEST_ITEM * items)
        return json_of(data, entries=MOST_ENTRIES + _ENTRIES * items)


@dataclass(slots=True)
class Sandbox:
    """Runs programs in containers of an engine. Several threads can use it; `open_sandbox` makes one."""

    engine: Engine
    scratch: Path
    run_id: str = field(default_factory=lambda: secrets.token_hex(6))
    _halted: threading.Event = field(default_factory=threading.Event)

    def run(
        self,
        image: str,
        argv: Sequence[str],
        files: Mapping[str, Path | bytes],
        *,
        outputs: Sequence[str] = (),
        limits: Limits | None = None,
        platform: str = "",
        gpus: bool = False,
    ) -> ProgramResult:
        """Run a program to its end.

        Args:
            image: an image of the engine that contains sh, tar and timeout.
            argv: the program and its arguments; its working directory is `FOLDER`.
            files: the input files, by relative name.
            outputs: the names of files that it may leave in ``out``; any other file is an error.
            platform: for an image of several platforms; empty for the engine's own.

        Raises:
            EngineError: the engine does not run it.
            OutputError: its output is too large, or not what was expected.
        """
        limits = limits or Limits()
        name = f"bakery-{self.run_id}-{secrets.token_hex(4)}"
        container = [*_run_words(name, limits, self.run_id, platform, gpus), image, "-c", _WATCH]
        program = ["exec", "--interactive", f"--user={USER}:{USER}", name, "sh", "-c", _INSIDE, "bakery", *argv]
        folder = Path(tempfile.mkdtemp(prefix="out-", dir=self.scratch))
        # A file instead of a pipe: docker reads it at its own pace, without a thread that feeds it.
        with tempfile.TemporaryFile(dir=self.scratch) as inputs:
            pack(files, inputs)
            inputs.seek(0)
            try:
                with self._container(container):
                    return self._run_program(program, inputs, folder, outputs, limits)
            except BaseException:
                self._remove(("name", f"^/?{name}$"))
                raise

    def run_program(  # noqa: PLR0913
        self,
        image: str,
        program: str,
        tasks: Sequence[Json],
        files: Mapping[str, Path | bytes],
        *,
        outputs: Sequence[str] = (),
        seconds: int = CALL_S,
        cores: str = "",
        platform: str = "",
        gpus: bool = False,
        options: Sequence[str] = ("-I",),
    ) -> ProgramResult:
        """Run one of `bakery_iree.programs`, which reads its tasks from a JSON file and writes `RESULT`.

        ``options`` are those of Python. Raises what `run` raises.
        """
        inputs = {**files, "program.py": programs.text(program).encode(), "tasks.json": json.dumps(tasks).encode()}
        return self.run(
            image,
            ["python3", *options, "program.py", "tasks.json", f"out/{RESULT}"],
            inputs,
            outputs=(RESULT, *outputs),
            limits=Limits.for_files(inputs, seconds, cores),
            platform=platform,
            gpus=gpus,
        )

    @contextmanager
    def _container(self, words: Sequence[str]) -> Iterator[None]:
        """Run a container while the context lasts; raise EngineError if the engine does not run it, or does not end it."""
        process = self.engine.start(words, subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        log, ready = Tail(process.stderr), Tail(process.stdout)
        try:
            deadline = time.monotonic() + _START_S
            while not ready.text and process.poll() is None and time.monotonic() < deadline:
                if self._halted.is_set():
                    raise EngineError("the container was ended")
                ready.changed.wait(0.2)
            if not ready.text:
                log.join()
                raise _not_run(log.text)
            yield
        finally:
            process.stdin.close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise EngineError("the engine did not end a container in time", hint=DOCTOR) from None
            finally:
                log.join()
                ready.join()

    def _run_program(
        self, words: Sequence[str], inputs: IO[bytes], folder: Path, outputs: Sequence[str], limits: Limits
    ) -> ProgramResult:
        process = self.engine.start(words, inputs)
        assert process.stdout is not None
        assert process.stderr is not None
        log = Tail(process.stderr, _BEGUN)
        receiver = Receiver(process.stdout, limits.output, self.scratch)
        is_late = False
        last = time.monotonic() + _START_S
        over = None
        try:
            while process.poll() is None and not (self._halted.is_set() or receiver.exceeds_limit or is_late):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
                now = time.monotonic()
                if over is None and log.has_begun:
                    over = now + limits.seconds + GRACE_S + _LATE_S
                    last = over + _RECEIVE_S
                is_late = now > last or (over is not None and now > over and not receiver.size)
        finally:
            has_ended = process.poll() is not None
            if not has_ended:
                process.kill()
                process.wait()
            log.join()
            receiver.join()
        with receiver.file as data:
            if receiver.exceeds_limit:
                raise OutputError(f"the output of the container is larger than {limits.output} bytes")
            # Also if the engine ended the container before this loop looked again: its output is incomplete.
            if self._halted.is_set():
                raise EngineError("the container was ended", details=log.text.splitlines()[-5:])
            if not log.has_begun:
                raise _not_run(log.text)
            if is_late and not has_ended:
                return ProgramResult(_TIMED_OUT, True, {}, log.text)
            data.seek(0)
            # There is no output at all if the program ended its own shell.
            files = unpack(data, folder, outputs) if receiver.size else {}
        return ProgramResult(process.returncode, process.returncode == _TIMED_OUT, files, log.text)

    def halt(self) -> None:
        """End all containers; threads that wait for one get an EngineError."""
        self._halted.set()
        self._remove(("label", f"{LABEL}.run={self.run_id}"))

    def remove_leftovers(self) -> None:
        """Remove containers of processes of this machine that have died."""
        self._remove(("label", LABEL), lambda container: is_dead((container.config.labels or {}).get(LABEL, "")))

    def _remove(self, which: ContainerListFilter, chosen: Callable[[Container], bool] = lambda _: True) -> None:
        """Remove containers, unless a call fails, for example because another process was faster."""
        with contextlib.suppress(ClientError), self.engine.docker(new_session=True) as docker:
            found = docker.container.list(all=True, filters=[which])
            docker.container.remove([item for item in found if chosen(item)], force=True, volumes=True)


def _not_run(log: str) -> EngineError:
    return EngineError("the engine does not run the container", hint=DOCTOR, details=log.splitlines()[-8:])


@contextmanager
def open_sandbox(environment: Mapping[str, str], scratch: Path) -> Iterator[Sandbox]:
    """Give a sandbox. When the context ends, all of its containers and files are removed.

    Leftovers of killed processes are removed first. ``scratch`` is an existing folder.
    """
    with tempfile.TemporaryDirectory(prefix="sandbox-", dir=scratch, ignore_cleanup_errors=True) as folder:
        sandbox = Sandbox(Engine(environment), Path(folder))
        sandbox.remove_leftovers()
        try:
            yield sandbox
        finally:
            # Another Ctrl-C waits until everything is removed.
            with caught():
                sandbox.halt()


def _run_words(name: str, limits: Limits, run_id: str, platform: str, gpus: bool) -> list[str]:
    """Return ``run`` and its flags; each flag forbids one thing."""
    flags = ["run", "--rm", "--interactive", "--init", f"--name={name}", "--pull=never", "--log-driver=none"]
    flags += [f"--label={LABEL}={_owner()}", f"--label={LABEL}.run={run_id}"]
    flags += ["--network=none", "--ipc=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only"]
    flags += [f"--user={WATCHER}:{WATCHER}", "--workdir=/", "--hostname=sandbox"]
    flags += [
        f"--tmpfs={FOLDER}:rw,noexec,nosuid,nodev,size={limits.files},nr_inodes=65536,mode=0700,uid={USER},gid={USER}"
    ]
    flags += [f"--memory={limits.memory}", f"--memory-swap={limits.memory}", f"--pids-limit={limits.processes}"]
    flags += ["--ulimit=core=0", "--ulimit=nofile=1024:1024"]
    flags += [f"--cpuset-cpus={limits.cores}"] if limits.cores else []
    flags += [f"--platform={platform}"] if platform else []
    flags += ["--gpus=all", "--env=NVIDIA_DRIVER_CAPABILITIES=compute,utility"] if gpus else []
    flags += [f"--env=LIMIT={limits.seconds}", f"--env=GRACE={GRACE_S}", f"--env=HOME={FOLDER}"]
    # The time of the program, and of docker before and after it.
    flags += [f"--env=LIFE={limits.seconds + GRACE_S + 2 * _START_S}"]
    # Docker gives every container the proxies of its configuration, and with them their passwords.
    flags += [
        f"--env={name}="
        for kind in ("HTTP", "HTTPS", "FTP", "ALL")
        for name in (f"{kind}_PROXY", f"{kind.lower()}_proxy")
    ]
    return [*flags, f"--env=TMPDIR={FOLDER}", "--entrypoint=sh"]


def _owner() -> str:
    """Return a name for this process: the machine since its boot, the process id, and the start time of the process."""
    return f"{_machine()}:{os.getpid()}:{_start_time(os.getpid())}"


def is_dead(owner: str) -> bool:
    """Whether an owner was a process of this machine that no longer runs."""
    machine, _, rest = owner.partition(":")
    pid, _, start = rest.partition(":")
    return machine == _machine() and pid.isdecimal() and _start_time(int(pid)) != start


def _machine() -> str:
    """Return a name for the namespace of this machine's process ids: the boot of the kernel, and the namespace."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    return "unknown"


def _start_time(pid: int) -> str:
    """Return when a process started, in ticks since boot; empty if it does not run. proc(5): field 22 of stat."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""
