"""Runs a program in a container that may do nothing but compute: files go in by a pipe, and come out by one.

No network, no capability, no new privileges, nobody's user, a read-only root, one small memory file system, and bounds
for memory, processes, cores and time. Nothing of this machine is mounted, so this works with an engine elsewhere, too.

Two pipes are all that leads in and out, each a tar: what the program finds in its folder, and what it leaves in
``out`` there. What comes out is data of a stranger: plain files of the names that were asked for, within a bound.

The program cannot outlive its time. The container's first process belongs to another user, so the program can neither
signal nor trace it, and the kernel ends the whole container with it. It ends when its standard input is closed: bakery
does that when the time is over, and the kernel does it when bakery is killed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import IO

from bakery.build.signals import caught
from bakery.core.errors import EngineError, OutputError
from bakery.engine.client import DOCTOR, Engine

LABEL = "bakery.sandbox"
"""Label of every container: who runs it, see `_owner`."""

FOLDER = "/work"
"""The memory file system: the only place where a program can write."""

USER = 65534
"""nobody, in every image: the program."""

WATCHER = 65533
"""The user of the container's first process; nobody else's files and processes are its own."""

GRACE_S = 5
"""Seconds that a program may take to end when its time is over."""

LOG = 64 * 1024
"""Bytes of a program's output that are kept: the last ones."""

_CHUNK = 1024 * 1024

_CLIENT_S = 60.0
"""Seconds that docker may take for an answer."""

_START_S = 300
"""Seconds that docker may take to begin and to end a container, beside the program's own time."""

_LATE_S = 5.0
"""Seconds after a program's time and `GRACE_S` until its output must begin to come out."""

_TAKE_S = 120.0
"""Seconds that its output may take from then on."""

_TIMED_OUT = 124
"""Exit code of timeout(1)."""

_WATCH = 'echo; exec timeout -s KILL "$LIFE" cat >/dev/null'
"""The first process of the container. Its own time limit is for an engine elsewhere that does not see bakery go."""

_BEGUN = b"\0begun\n"
"""What `_INSIDE` prints before the program begins."""

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
"""What runs the program, as its user. A program can stop all of this: then bakery ends the container."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may take.

    Attributes:
        memory: bytes, of the program and of its files together.
        files: bytes of its files: those that go in, and those that it makes.
        processes: processes and threads.
        cores: those it is held to, as ``0-3,6``; empty for all that the engine has.
        seconds: how long it may run.
        output: bytes that may come out.
    """

    memory: int = 4 * 1024**3
    files: int = 2 * 1024**3
    processes: int = 256
    cores: str = ""
    seconds: int = 600
    output: int = 1024**3


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended.

    Attributes:
        code: its exit code; 128 and the number of the signal that ended it.
        timed_out: its time was over.
        out: name → the file that it left in ``out``, among those that were asked for.
        log: the end of what it printed.
    """

    code: int
    timed_out: bool
    out: Mapping[str, Path]
    log: str


@dataclass(slots=True)
class Sandbox:
    """Runs programs in containers; safe to use from several threads. Made by `sandbox`.

    Attributes:
        environment: all of the docker client's environment.
        scratch: a folder of this machine, for what comes out.
    """

    environment: Mapping[str, str]
    scratch: Path
    run_id: str = field(default_factory=lambda: secrets.token_hex(6))
    _call: list[str] = field(default_factory=list)
    _halted: threading.Event = field(default_factory=threading.Event)

    def run(
        self,
        image: str,
        argv: Sequence[str],
        files: Mapping[str, Path | bytes],
        *,
        wanted: Sequence[str] = (),
        limits: Limits | None = None,
        platform: str = "",
        gpus: bool = False,
    ) -> Ran:
        """Run a program to its end.

        Args:
            image: an image that the engine has; sh, tar and timeout are in it.
            argv: the program and its arguments; its folder is `FOLDER`.
            files: what lies in its folder, by relative name.
            wanted: names of files that it may leave in ``out``; others are an error.
            platform: for an image of several; empty for the engine's own.
            gpus: it gets the machine's GPUs.

        Raises:
            EngineError: the engine does not run it.
            OutputError: what came out is too much, or not what was asked for.
        """
        limits = limits or Limits()
        name = f"bakery-{self.run_id}-{secrets.token_hex(4)}"
        container = [*self._docker(), *_flags(name, limits, self.run_id, platform, gpus), image, "-c", _WATCH]
        program = [
            *self._docker(),
            "exec",
            "--interactive",
            f"--user={USER}:{USER}",
            name,
            "sh",
            "-c",
            _INSIDE,
            "bakery",
        ]
        out = Path(tempfile.mkdtemp(prefix="out-", dir=self.scratch))
        # A file, not a pipe: docker reads it as it likes, and nobody has to feed it.
        with tempfile.TemporaryFile(dir=self.scratch) as sent:
            _pack(files, sent)
            sent.seek(0)
            try:
                with self._container(container):
                    return self._finish([*program, *argv], sent, out, wanted, limits)
            except BaseException:
                self._remove(["--filter", f"name=^/?{name}$"])
                raise

    @contextmanager
    def _container(self, command: list[str]) -> Iterator[None]:
        """Give a container that runs; when the context ends, it is gone.

        Raises:
            EngineError: the engine does not run it, or does not end it.
        """
        process = _started(command, self.environment, subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        log, ready = _Tail(process.stderr), _Tail(process.stdout)
        try:
            deadline = time.monotonic() + _START_S
            while not ready.text and process.poll() is None and time.monotonic() < deadline:
                if self._halted.is_set():
                    raise EngineError("the container was ended")
                ready.changed.wait(0.2)
            if not ready.text:
                log.join()
                why = log.text.splitlines()[-8:]
                raise EngineError("the engine does not run the container", hint=DOCTOR, details=why)
            yield
        finally:
            process.stdin.close()
            try:
                process.wait(_CLIENT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise EngineError("the engine did not end a container in time", hint=DOCTOR) from None
            finally:
                log.join()
                ready.join()

    def _finish(self, command: list[str], sent: IO[bytes], out: Path, wanted: Sequence[str], limits: Limits) -> Ran:
        process = _started(command, self.environment, sent)
        assert process.stdout is not None
        assert process.stderr is not None
        log = _Tail(process.stderr, _BEGUN)
        received = _Received(process.stdout, limits.output, self.scratch)
        is_late = False
        last = time.monotonic() + _START_S
        over = None
        try:
            while process.poll() is None and not (self._halted.is_set() or received.too_much or is_late):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
                now = time.monotonic()
                if over is None and log.begun:
                    over = now + limits.seconds + GRACE_S + _LATE_S
                    last = over + _TAKE_S
                is_late = now > last or (over is not None and now > over and not received.size)
        finally:
            ended = process.poll() is not None
            if not ended:
                process.kill()
                process.wait()
            log.join()
            received.join()
        text = log.text
        with received.file as data:
            if received.too_much:
                raise OutputError(f"more than {limits.output} bytes came out of the container")
            # Also where the engine ended the container before this loop looked again: nothing it left is whole.
            if self._halted.is_set():
                raise EngineError("the container was ended", details=text.splitlines()[-5:])
            if not log.begun:
                raise EngineError("the engine does not run the container", hint=DOCTOR, details=text.splitlines()[-8:])
            if is_late and not ended:
                return Ran(_TIMED_OUT, True, {}, text)
            data.seek(0)
            # A program that ends its own shell leaves nothing.
            files = _unpack(data, out, wanted) if received.size else {}
        return Ran(process.returncode, process.returncode == _TIMED_OUT, files, text)

    def halt(self) -> None:
        """End everything that still runs; the threads that wait for it get an EngineError."""
        self._halted.set()
        self._remove(["--filter", f"label={LABEL}.run={self.run_id}"])

    def sweep(self) -> None:
        """Remove what dead runs of this machine left."""
        listed = self._ask(
            "ps", "--all", "--format", f'{{{{.ID}}}} {{{{.Label "{LABEL}"}}}}', "--filter", f"label={LABEL}"
        )
        dead = [line.split()[0] for line in listed.splitlines() if len(line.split()) == 2 and is_dead(line.split()[1])]
        if dead:
            self._ask("rm", "--force", "--volumes", *dead)

    def _remove(self, filters: Sequence[str]) -> None:
        found = self._ask("ps", "--all", "--quiet", *filters).split()
        if found:
            self._ask("rm", "--force", "--volumes", *found)

    def _docker(self) -> list[str]:
        if not self._call:
            self._call = Engine(self.environment).call()
        return self._call

    def _ask(self, *words: str) -> str:
        """Return what docker prints; nothing where it fails, as when another process was faster."""
        try:
            done = subprocess.run(
                [*self._docker(), *words],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_CLIENT_S,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout


@contextmanager
def sandbox(environment: Mapping[str, str], scratch: Path) -> Iterator[Sandbox]:
    """Give a sandbox; when the context ends, however it does, none of its containers and files is left.

    What is left of runs that were killed is removed first.

    Args:
        environment: all of the docker client's environment.
        scratch: an existing folder; one is made in it, and removed.
    """
    with tempfile.TemporaryDirectory(prefix="sandbox-", dir=scratch, ignore_cleanup_errors=True) as folder:
        made = Sandbox(environment, Path(folder))
        made.sweep()
        try:
            yield made
        finally:
            # Another Ctrl-C waits until nothing is left.
            with caught():
                made.halt()


def _flags(name: str, limits: Limits, run_id: str, platform: str, gpus: bool) -> list[str]:
    """Return ``run`` and its flags: each forbids one thing."""
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
    # What the program may take, and docker before and after it.
    flags += [f"--env=LIFE={limits.seconds + GRACE_S + 2 * _START_S}"]
    return [*flags, f"--env=TMPDIR={FOLDER}", "--entrypoint=sh"]


def _owner() -> str:
    """Return who runs a container: the machine since its start, this process, and when that began."""
    return f"{_machine()}:{os.getpid()}:{_began(os.getpid())}"


def is_dead(owner: str) -> bool:
    """Say whether the process that a label names was one of this machine, and runs no more."""
    machine, _, rest = owner.partition(":")
    pid, _, began = rest.partition(":")
    return machine == _machine() and pid.isdecimal() and _began(int(pid)) != began


def _machine() -> str:
    """Return what tells process ids of here from others: the start of the kernel, and the namespace of the ids."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    return "unknown"


def _began(pid: int) -> str:
    """Return when a process began, in ticks since the machine did; empty for none. proc(5): field 22 of stat."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _started(command: list[str], environment: Mapping[str, str], sent: IO[bytes] | int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            env=dict(environment),
            stdin=sent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C on a terminal reaches bakery alone, which ends the container.
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError(f"cannot start {command[0]}: {error.strerror}", hint=DOCTOR) from error


def _pack(files: Mapping[str, Path | bytes], target: IO[bytes]) -> None:
    """Write a tar of files that anybody may read, in folders that anybody may enter.

    Raises:
        OutputError: a file cannot be read.
    """
    try:
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.mode, member.mtime = 0o644, 0
                if isinstance(content, bytes):
                    member.size = len(content)
                    archive.addfile(member, BytesIO(content))
                else:
                    with content.open("rb") as source:
                        member.size = os.fstat(source.fileno()).st_size
                        archive.addfile(member, source)
    except OSError as error:
        raise OutputError(f"cannot read {error.filename or 'a file'}: {error.strerror or error}") from error


def _unpack(data: IO[bytes], folder: Path, wanted: Sequence[str]) -> dict[str, Path]:
    """Write the files of a tar into a folder.

    Raises:
        OutputError: it is no tar, or holds something else than plain files of the names that are wanted.
    """
    found: dict[str, Path] = {}
    try:
        with tarfile.open(fileobj=data, mode="r:") as archive:
            for member in archive:
                name = member.name.removeprefix("out/")
                if member.isdir() and member.name == "out":
                    continue
                if not member.isreg() or member.issparse() or name not in wanted or name in found:
                    raise OutputError(f"the container left {member.name[:200]!a}, which nobody asked for")
                content = archive.extractfile(member)
                assert content is not None
                found[name] = folder / str(len(found))
                with found[name].open("wb") as target:
                    shutil.copyfileobj(content, target, _CHUNK)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise OutputError(f"what came out of the container cannot be read: {error}") from error
    return found


class _Tail:
    """Reads a pipe to its end and keeps the last of it.

    Attributes:
        begun: ``first`` came, which is not kept.
        changed: something came.
    """

    def __init__(self, pipe: IO[bytes], first: bytes = b"") -> None:
        self.begun = False
        self.changed = threading.Event()
        self._first = first
        self._kept = b""
        self._pipe = pipe
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), LOG):
                self._kept += chunk
                if not self.begun and self._first and self._first in self._kept:
                    self.begun = True
                    self._kept = self._kept.replace(self._first, b"", 1)
                self._kept = self._kept[-LOG:]
                self.changed.set()

    def join(self) -> None:
        self._thread.join(timeout=5.0)

    @property
    def text(self) -> str:
        return self._kept.decode(errors="replace")


class _Received:
    """Reads a pipe into a file without a name, to its end or until it gave too much."""

    def __init__(self, pipe: IO[bytes], most: int, folder: Path) -> None:
        self.too_much = False
        self.size = 0
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._most = most
        self._pipe = pipe
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), _CHUNK):
                self.size += len(chunk)
                if self.size > self._most:
                    self.too_much = True
                    return
                self.file.write(chunk)

    def join(self) -> None:
        self._thread.join(timeout=5.0)
