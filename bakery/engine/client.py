"""The engine through python-on-whales: what it is, and how docker is called.

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

from bakery.core.errors import EngineError
from bakery.plan.values import Json

if TYPE_CHECKING:
    from python_on_whales import DockerClient

DOCTOR = "run `wheel-bakery doctor`"
_CONTAINERD = "io.containerd.snapshotter.v1"

EXECUTION = "--execution"
"""The flag of `docker buildx bake` that chooses what a failed target does to the others (buildx#4044)."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine says of itself.

    Attributes:
        store: ``containerd`` for its image store, else the graph driver's name.
        memory: bytes.
        root: where it keeps its data, on its own machine.
        runtimes: names of what can run its containers: ``runc``, ``nvidia``.
    """

    version: str
    store: str
    cpus: int
    memory: int
    root: str
    architecture: str
    runtimes: tuple[str, ...] = ()


def exports(driver: str, store: str) -> frozenset[str]:
    """Return the kinds of layer cache that a builder writes.

    Args:
        driver: buildx's.
        store: the image store of the engine behind driver ``docker``, as `EngineInfo` has it.
    """
    if driver != "docker":
        return frozenset({"gha", "inline", "local", "registry", "s3"})
    return frozenset({"gha", "inline", "local", "registry"} if store == "containerd" else {"inline"})


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
            architecture=_text(document, "Architecture"),
            runtimes=_names(document, "Runtimes"),
        )

    def driver(self, builder: str | None = None) -> str:
        """Return the driver of a builder of buildx, the current one without a name; empty where there is none.

        Raises:
            EngineError: buildx does not answer.
        """
        with _reported("buildx does not answer"):
            said = self._output("buildx", "ls", "--format", "{{json .}}")
            found = [_parse(line) for line in said.splitlines()]
        chosen = (item for item in found if (item.get("Name") == builder if builder else item.get("Current") is True))
        return _text(next(chosen, {}), "Driver")

    def has_image(self, name: str) -> bool:
        """Say whether the engine has an image of that name.

        Raises:
            EngineError: it does not answer.
        """
        with _reported("the engine does not answer"):
            return self.client.image.exists(name)

    def bake_offers(self, flag: str) -> bool:
        """Say whether ``docker buildx bake`` has a flag. Its help tells; versions of builds from source do not.

        Raises:
            EngineError: docker or buildx cannot be run.
        """
        with _reported("buildx does not answer"):
            return (
                re.search(rf"^ +(?:-\w, )?{re.escape(flag)}\b", self._output("buildx", "bake", "--help"), re.M)
                is not None
            )

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


def _names(document: Mapping[str, Json], key: str) -> tuple[str, ...]:
    value = document.get(key)
    return tuple(sorted(value)) if isinstance(value, dict) else ()


def _errors(document: Mapping[str, Json]) -> list[str]:
    found = document.get("ServerErrors")
    return [str(item) for item in found] if isinstance(found, list) else []
