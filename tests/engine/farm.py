"""Nodes: engines with data roots, sockets and network namespaces of their own, reached over TCP with TLS on loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wayout import WayOut, run

from bakery.engine import private_engine
from bakery.engine.discover import find
from bakery.engine.private_engine_files import Prefix

GATE = Path(__file__).with_name("gate.py")
FORWARD = Path(__file__).with_name("forward.py")


def certificates(folder: Path) -> None:
    """Write ca.pem, and node and client certificates that it signed, with their keys."""
    folder.mkdir()
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    authority = ("-keyout", folder / "ca.key", "-out", folder / "ca.pem", "-subj", "/CN=bakery-test")
    run("openssl", "req", "-x509", *key, "-days", "2", *authority)
    signed = ("-CA", folder / "ca.pem", "-CAkey", folder / "ca.key")
    for name, extension in (("node", "subjectAltName=DNS:node.test"), ("client", "extendedKeyUsage=clientAuth")):
        files = ("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem")
        own = ("-subj", f"/CN={name}", "-addext", extension, "-addext", "basicConstraints=critical,CA:FALSE")
        run("openssl", "req", "-x509", *key, "-days", "2", *files, *own, *signed)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


@dataclass
class EngineNode:
    """A node.

    Attributes:
        environ: leads to its engine.
        way: leads from its network namespace out.
    """

    name: str
    environ: Mapping[str, str]
    prefix: Prefix
    way: WayOut
    port: int
    certificates: Path
    pid: int = 0
    gate: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, or start it again."""
        engine = private_engine.start(self.prefix, lambda _: None, self.environ)
        self.pid = engine.pid
        self.way.open(self.pid)
        command = [sys.executable, str(GATE), str(engine.paths.socket), str(self.port), str(self.certificates)]
        self.gate = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self.gate.stdout
        assert self.gate.stdout.readline() == "listening\n"

    @property
    def gateway(self) -> str:
        """The address of this machine as the engine sees it."""
        return self.way.gateway

    def reaching(self) -> dict[str, str]:
        """Return the environment in which docker reaches the engine itself, and not as a node."""
        return {**self.environ, **find(self.environ).environment}

    @contextlib.contextmanager
    def forwarded(self, port: int) -> Iterator[None]:
        """Let the engine find at its own loopback what listens at this machine's: registries there need no TLS."""
        inside = ("nsenter", "--target", str(self.pid), "--net")
        steps = (((), self.gateway, "127.0.0.1"), (inside, "127.0.0.1", self.gateway))
        with contextlib.ExitStack() as stack:
            for before, address, target in steps:
                words = [*before, sys.executable, str(FORWARD), address, str(port), target, str(port)]
                child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
                stack.callback(child.wait)
                stack.callback(child.terminate)
                assert child.stdout
                assert child.stdout.readline() == "listening\n"
            yield

    def kill(self) -> None:
        """End it as a power cut does: nobody says goodbye."""
        for pid in (self.pid, self.gate.pid if self.gate else 0):
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self.gate:
            self.gate.wait()
            self.gate = None

    def remove(self) -> None:
        """End it, and delete all that it left."""
        if self.gate:
            self.gate.kill()
            self.gate.wait()
        self.way.close()
        private_engine.remove(self.environ)


@contextlib.contextmanager
def engine_nodes(folder: Path, names: Sequence[str]) -> Iterator[list[EngineNode]]:
    """Give running nodes.

    Args:
        folder: an empty folder of a short name: a unix socket's path has at most 107 bytes.
    """
    certificates(folder / "tls")
    with contextlib.ExitStack() as stack:
        nodes = []
        for number, name in enumerate(names):
            environ = {**os.environ, "BAKERY_ENGINE_DIR": str(folder / str(number))}
            for variable in ("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT"):
                environ.pop(variable, None)
            prefix = private_engine.install(lambda _: None, environ)
            way = WayOut.numbered(prefix, number)
            nodes.append(EngineNode(name, environ, prefix, way, free_port(), folder / "tls"))
            stack.callback(nodes[-1].remove)
            nodes[-1].start()
        yield nodes


def table(nodes: Sequence[EngineNode], *, slots: int, more: str = "") -> str:
    """Return ``[builders.farm]`` of nodes; ``more`` are tables of further ones."""
    own = nodes[0].certificates
    head = (
        '[builders.farm]\ndriver = "remote"\n'
        f'tls = {{ ca = "{own}/ca.pem", cert = "{own}/client.pem", key = "{own}/client.key", '
        'server-name = "node.test" }\n'
    )
    tables = [
        f'[[builders.farm.nodes]]\nname = "{node.name}"\nendpoint = "tcp://127.0.0.1:{node.port}"\n'
        f'platforms = ["linux/amd64"]\nslots = {slots}\n'
        for node in nodes
    ]
    return head + "".join(tables) + more
