"""The engine through python-on-whales: what it is, which images it has, and how docker is called.

python-on-whales is imported where it is used: that takes 0.2 s. Its exceptions are chosen by words in the
client's messages, so none is told from another here; all become `EngineError`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bakery.errors import EngineError
from bakery.plan import Json

if TYPE_CHECKING:
    from python_on_whales import DockerClient

DOCTOR = "run `bakery doctor`"
_CONTAINERD = "io.containerd.snapshotter.v1"
_FLAG = re.compile(r"^\s+(?:-\w, )?(--[a-z][a-z-]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine says of itself.

    Attributes:
        store: ``containerd`` for its image store, else the graph driver's name.
        memory: bytes.
        root: where it keeps its data, on its own machine.
        cgroup: version of the control groups, ``1`` or ``2``.
    """

    version: str
    store: str
    cpus: int
    memory: int
    root: str
    cgroup: str
    architecture: str


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a builder."""

    name: str
    endpoint: str
    status: str
    platforms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Builder:
    """A builder that buildx knows."""

    name: str
    driver: str
    nodes: tuple[Node, ...]

    @property
    def running(self) -> bool:
        """All of its nodes run."""
        return bool(self.nodes) and all(node.status == "running" for node in self.nodes)

    @property
    def platforms(self) -> tuple[str, ...]:
        """What its nodes build for, in their order."""
        return tuple(dict.fromkeys(platform for node in self.nodes for platform in node.platforms))


class Engine:
    """The engine that an environment names.

    python-on-whales runs docker with this process's environment, so what differs from it must be among PATH,
    DOCKER_HOST, DOCKER_CONFIG, DOCKER_CONTEXT and the variables for TLS.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    @cached_property
    def client(self) -> DockerClient:
        """The python-on-whales client.

        Raises:
            EngineError: there is no docker on PATH.
        """
        from python_on_whales import DockerClient

        environment = self.environment
        program = shutil.which("docker", path=environment.get("PATH"))
        if program is None:
            raise EngineError("there is no docker on PATH", hint=DOCTOR)
        host = environment.get("DOCKER_HOST") or None
        certificates = environment.get("DOCKER_CERT_PATH") if environment.get("DOCKER_TLS_VERIFY") else None
        folder = Path(certificates) if certificates else None
        return DockerClient(
            client_call=[program],
            config=environment.get("DOCKER_CONFIG") or None,
            host=host,
            # docker refuses both; the host wins, as it does among the variables.
            context=None if host else environment.get("DOCKER_CONTEXT") or None,
            tlsverify=True if environment.get("DOCKER_TLS_VERIFY") else None,
            tlscacert=folder / "ca.pem" if folder else None,
            tlscert=folder / "cert.pem" if folder else None,
            tlskey=folder / "key.pem" if folder else None,
        )

    def call(self) -> list[str]:
        """Return how docker is called: the program and the flags that name the engine.

        Raises:
            EngineError: there is no docker on PATH.
        """
        return [str(word) for word in self.client.client_config.docker_cmd]

    def info(self) -> EngineInfo:
        """Ask the engine what it is.

        Raises:
            EngineError: it does not answer.
        """
        # python-on-whales' model of this leaves out the control groups' version.
        document = self._document("info", "--format", "{{json .}}")
        version = _text(document, "ServerVersion")
        if not version:
            raise EngineError("the engine does not answer", hint=DOCTOR, details=_errors(document))
        containerd = _CONTAINERD in json.dumps(document.get("DriverStatus"))
        return EngineInfo(
            version=version,
            store="containerd" if containerd else _text(document, "Driver"),
            cpus=_number(document, "NCPU"),
            memory=_number(document, "MemTotal"),
            root=_text(document, "DockerRootDir"),
            cgroup=_text(document, "CgroupVersion"),
            architecture=_text(document, "Architecture"),
        )

    def buildx_version(self) -> str:
        """Return what ``docker buildx version`` says: for people, not for comparing.

        Raises:
            EngineError: there is no buildx.
        """
        with _reported("docker has no buildx plugin"):
            return self.client.buildx.version()

    def bake_flags(self) -> frozenset[str]:
        """Return the flags that this buildx's ``bake`` knows: what it can do, whatever its version.

        Raises:
            EngineError: there is no buildx.
        """
        with _reported("docker has no buildx plugin"):
            return frozenset(_FLAG.findall(self._output("buildx", "bake", "--help")))

    def builders(self) -> tuple[Builder, ...]:
        """Return the builders that buildx knows.

        Raises:
            EngineError: buildx cannot list them.
        """
        with _reported("buildx cannot list its builders"):
            return tuple(
                Builder(
                    name=builder.name or "",
                    driver=builder.driver or "",
                    nodes=tuple(
                        Node(node.name or "", node.endpoint or "", node.status or "", tuple(node.platforms or ()))
                        for node in builder.nodes or ()
                    ),
                )
                for builder in self.client.buildx.list()
            )

    def has_image(self, ref: str, platform: str) -> str | None:
        """Return the digest of an image if the engine has it for ``platform`` (``linux/amd64``), else None.

        Raises:
            EngineError: the engine does not answer.
        """
        document = self._image(ref)
        if document is not None and f"{_text(document, 'Os')}/{_text(document, 'Architecture')}" != platform:
            # A name may stand for several platforms; without asking, the machine's own is shown.
            document = self._image(ref, "--platform", platform)
        if document is None:
            return None
        descriptor = document.get("Descriptor")
        digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
        return digest if isinstance(digest, str) else _text(document, "Id")

    def load_image(self, archive: Path) -> tuple[str, ...]:
        """Load an archive of ``docker save``; return the names that it brought.

        Raises:
            EngineError: it cannot be loaded.
        """
        with _reported(f"cannot load {archive}"):
            # Without quiet, python-on-whales prints.
            return tuple(self.client.image.load(archive, quiet=True))

    def tag(self, ref: str, name: str) -> None:
        """Give an image another name; an image that loses it and has no other is removed.

        Raises:
            EngineError: there is no such image.
        """
        before = self._image(name)
        with _reported(f"cannot tag {ref} as {name}"):
            self.client.image.tag(ref, name)
        now = self._image(name)
        if before is not None and now is not None and _text(before, "Id") != _text(now, "Id"):
            self._remove_nameless(_text(before, "Id"))

    def remove_image(self, ref: str) -> bool:
        """Remove a name, and the image with its last one; say whether there was one.

        Raises:
            EngineError: a container uses it.
        """
        if self._image(ref) is None:
            return False
        with _reported(f"cannot remove {ref}"):
            self.client.image.remove(ref)
        return True

    def _remove_nameless(self, identity: str) -> None:
        document = self._image(identity)
        if document is not None and not document.get("RepoTags"):
            with _reported(f"cannot remove {identity}"):
                self.client.image.remove(identity)

    def _image(self, ref: str, *flags: str) -> dict[str, Json] | None:
        from python_on_whales.exceptions import DockerException

        try:
            output = self._output("image", "inspect", "--format", "{{json .}}", *flags, ref)
        except DockerException as error:
            said = (error.stderr or "").lower()
            if "no such image" in said or "does not provide the specified platform" in said or "unknown flag" in said:
                return None
            raise EngineError(f"cannot inspect {ref}", hint=DOCTOR, details=said.splitlines()) from error
        return _parse(output)

    def _document(self, *arguments: str) -> dict[str, Json]:
        with _reported("the engine does not answer"):
            return _parse(self._output(*arguments))

    def _output(self, *arguments: str) -> str:
        from python_on_whales.utils import run

        return run([*self.call(), *arguments], return_stderr=False)


@contextmanager
def _reported(message: str) -> Iterator[None]:
    """Turn every failure of docker into an EngineError that shows what docker said."""
    from python_on_whales.client_config import ParsingError
    from python_on_whales.exceptions import DockerException

    try:
        yield
    except DockerException as error:
        said = (error.stderr or error.stdout or "").strip()
        raise EngineError(message, hint=DOCTOR, details=said.splitlines()) from error
    except (OSError, ParsingError, ValueError) as error:
        raise EngineError(f"{message}: {error}", hint=DOCTOR) from error


def _parse(output: str) -> dict[str, Json]:
    document: Json = json.loads(output)
    return document if isinstance(document, dict) else {}


def _text(document: Mapping[str, Json], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def _number(document: Mapping[str, Json], key: str) -> int:
    value = document.get(key)
    return value if isinstance(value, int) else 0


def _errors(document: Mapping[str, Json]) -> list[str]:
    found = document.get("ServerErrors")
    return [str(item) for item in found] if isinstance(found, list) else []
