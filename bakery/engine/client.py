"""The docker client and the properties of an engine (docs/decisions/0003-calling-docker.md).

python-on-whales is imported where it is used, which takes 0.2 s.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from bakery.core.environment import for_tool
from bakery.core.errors import EngineError
from bakery.plan.values import Json
from wheel_audit.readers import json_of

if TYPE_CHECKING:
    from python_on_whales import DockerClient

DOCTOR = "run `wheel-bakery doctor`"
TIMEOUT_S = 60.0
"""Seconds that a call of the docker client may take by default."""

_CONTAINERD = "io.containerd.snapshotter.v1"

EXECUTION = "--execution"
"""The flag of `docker buildx bake` that chooses what a failed target does to the others (buildx#4044)."""


class ClientError(EngineError):
    """A call of the docker client failed. `reason` has one line; `is_missing`: the client could not be started."""

    def __init__(self, words: Sequence[str], reason: str, output: str = "", *, is_missing: bool = False) -> None:
        lines = output.strip().splitlines()
        command = " ".join(("docker", *words[:2]))
        super().__init__(reason, subject=f"`{command}` failed", hint=DOCTOR, details=lines if len(lines) > 1 else ())
        self.is_missing = is_missing


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The output of ``docker info``; memory in bytes."""

    version: str
    store: str  # the image store: ``containerd``, or the name of the graph driver
    cpus: int
    memory: int
    root: str  # the folder of its data, on its own machine
    architecture: str
    runtimes: tuple[str, ...] = ()  # container runtimes: ``runc``, ``nvidia``


def exports(driver: str, store: str) -> frozenset[str]:
    """Return the kinds of layer cache that a builder writes. Driver ``docker`` uses the image store of its engine."""
    if driver != "docker":
        return frozenset({"gha", "inline", "local", "registry", "s3"})
    return frozenset({"gha", "inline", "local", "registry"} if store == "containerd" else {"inline"})


def parse_buildx_version(text: str) -> tuple[int, ...] | None:
    """Read the version from the output of ``docker buildx version`` (module, version, revision)."""
    match = re.search(r"(?<=\s)v?(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(number or 0) for number in match.groups()) if match else None


@dataclass(frozen=True, slots=True)
class _Call:
    """How calls of the docker client are made."""

    environment: Mapping[str, str]
    timeout_s: float
    new_session: bool


_CALL: ContextVar[_Call | None] = ContextVar("_CALL", default=None)
"""How python-on-whales calls docker now; None where others than Bakery use it."""

_plain_run = subprocess.run


class _Subprocess:
    """What python-on-whales uses of the module `subprocess`."""

    PIPE = subprocess.PIPE

    @staticmethod
    def run(
        args: list[str],
        *,
        input: bytes | None,
        stdout: int | None,
        stderr: int | None,
        env: Mapping[str, str],
        pass_fds: Sequence[int],
    ) -> subprocess.CompletedProcess[bytes]:
        """Run docker as `_CALL` says."""
        if call := _CALL.get():
            return _completed(args, call)
        return _plain_run(args, input=input, stdout=stdout, stderr=stderr, env=env, pass_fds=pass_fds)


def _completed(argv: Sequence[str], call: _Call) -> subprocess.CompletedProcess[bytes]:
    """Run the docker client to its end. Raises ClientError if it cannot be started, or takes too long."""
    try:
        return subprocess.run(
            argv,
            env=for_tool(call.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=call.timeout_s,
            start_new_session=call.new_session,
        )
    except subprocess.TimeoutExpired as error:
        raise ClientError(argv[1:], f"no answer within {call.timeout_s:g} s") from error
    except OSError as error:
        raise ClientError(argv[1:], str(error), is_missing=True) from error


class Engine:
    """The engine that the whole environment of a docker client selects (PATH, DOCKER_HOST, DOCKER_CONFIG, …).

    With ``new_session``, Ctrl-C does not reach the client. Methods raise ClientError if the client or buildx is missing,
    fails, or takes too long.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    @contextmanager
    def docker(self, *, timeout_s: float = TIMEOUT_S, new_session: bool = False) -> Iterator[DockerClient]:
        """Give python-on-whales' client of this engine. Each of its calls may take ``timeout_s``, as one of `run`.

        Raises ClientError if a call fails or takes too long, or if python-on-whales cannot read its answer.
        """
        from python_on_whales import DockerClient, utils
        from python_on_whales.client_config import ParsingError
        from python_on_whales.exceptions import DockerException

        # It has no time limits, and takes the environment of the process.
        vars(utils)["subprocess"] = _Subprocess
        before = _CALL.set(_Call(self.environment, timeout_s, new_session))
        try:
            yield DockerClient(client_call=[self._program()])
        except DockerException as error:
            said = error.stderr or ""
            raise ClientError(error.docker_command[1:], _reason(said), said) from error
        except (ParsingError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ClientError((), f"its answer cannot be read: {str(error).strip().partition(chr(10))[0]}") from error
        finally:
            _CALL.reset(before)

    def run(self, *words: str, timeout_s: float = TIMEOUT_S) -> str:
        """Run the docker client for what python-on-whales does not offer, and return its output."""
        done = _completed([self._program(), *words], _Call(self.environment, timeout_s, False))
        if done.returncode:
            said = done.stderr.decode(errors="replace")
            raise ClientError(words, _reason(said), said)
        return done.stdout.decode(errors="replace")

    def run_or_empty(self, *words: str, timeout_s: float = TIMEOUT_S) -> str:
        """Return the client's output; empty if it fails or exceeds ``timeout_s``, but not if it is missing."""
        try:
            return self.run(*words, timeout_s=timeout_s)
        except ClientError as error:
            if error.is_missing:
                raise
            return ""

    def image(self, name: str, platform: str = "") -> dict[str, Json]:
        """Return what ``docker image inspect`` prints for an image; empty if the engine has none for the platform.

        With a platform, ``Id`` is the digest of its manifest, also where the name stands for several platforms.
        """
        words = ("--platform", platform) if platform else ()
        return _parse(self.run_or_empty("image", "inspect", "--format", "{{json .}}", *words, name))

    def start(self, words: Sequence[str], stdin: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Start the docker client in a new session, so that Ctrl-C does not reach it; its output goes to pipes."""
        try:
            return subprocess.Popen(
                [self._program(), *words],
                env=for_tool(self.environment),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ClientError(words, str(error), is_missing=True) from error

    def call(self) -> list[str]:
        """Return the start of a command line of the client."""
        return [self._program()]

    def info(self) -> EngineInfo:
        """Return the output of ``docker info``. Raises EngineError if the engine does not answer."""
        try:
            with self.docker() as docker:
                found = docker.system.info()
        except ClientError as error:
            raise EngineError("the engine does not answer", hint=DOCTOR, details=[error.reason]) from error
        if not found.server_version:
            raise EngineError("the engine does not answer", hint=DOCTOR)
        containerd = any(_CONTAINERD in row for row in found.driver_status or ())
        return EngineInfo(
            version=found.server_version,
            store="containerd" if containerd else found.driver or "",
            cpus=found.n_cpu or 0,
            memory=found.mem_total or 0,
            root=str(found.docker_root_dir or ""),
            architecture=found.architecture or "",
            runtimes=tuple(sorted(found.runtimes or ())),
        )

    def version(self, *, timeout_s: float = TIMEOUT_S) -> str:
        """Return the version of the engine."""
        with self.docker(timeout_s=timeout_s) as docker:
            server = docker.version().server
        return (server.version if server else "") or ""

    def buildx_version(self, *, timeout_s: float = TIMEOUT_S) -> tuple[int, ...] | None:
        """Return the version of buildx; None if it cannot be read."""
        with self.docker(timeout_s=timeout_s) as docker:
            return parse_buildx_version(docker.buildx.version())

    def builder(self, name: str | None = None, *, timeout_s: float = TIMEOUT_S) -> dict[str, Json]:
        """Return what ``docker buildx ls`` prints as JSON of a builder, by default of the current one; empty for none."""
        output = self.run("buildx", "ls", "--format", "{{json .}}", timeout_s=timeout_s)
        builders = [_parse(line) for line in output.splitlines() if line.startswith("{")]
        key, value = ("Name", name) if name else ("Current", True)
        return next((item for item in builders if item.get(key) == value), {})

    def driver(self, builder: str | None = None) -> str:
        """Return the driver of a builder, by default of the current one; empty if there is none."""
        value = self.builder(builder).get("Driver")
        return value if isinstance(value, str) else ""

    def has_image(self, name: str) -> bool:
        """Whether the engine has an image of that name. Raises EngineError if it does not answer."""
        try:
            with self.docker() as docker:
                return docker.image.exists(name)
        except ClientError as error:
            raise EngineError("the engine does not answer", hint=DOCTOR, details=[error.reason]) from error

    def bake_offers(self, flag: str) -> bool:
        """Whether ``docker buildx bake`` lists a flag in its help. Builds from source have no usable version."""
        text = self.run("buildx", "bake", "--help")
        return re.search(rf"^ +(?:-\w, )?{re.escape(flag)}\b", text, re.M) is not None

    def _program(self) -> str:
        program = shutil.which("docker", path=self.environment.get("PATH"))
        if program is None:
            raise ClientError((), "there is no docker on PATH", is_missing=True)
        return program


def _reason(stderr: str) -> str:
    """Return the line that says why a client failed: buildx marks it, other commands begin with it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()] or ["no reason given"]
    marked = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return marked[-1] if marked else lines[0]


def _parse(output: str) -> dict[str, Json]:
    try:
        document: Json = json_of(output)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def strings(value: Json) -> list[str]:
    """Return the items of an array, or the keys of an object."""
    return [str(item) for item in value] if isinstance(value, list | dict) else []
