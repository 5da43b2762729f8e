"""Builders of many nodes: machines of an organisation that cells are spread over."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from bakery.recipe.models.base import Model
from bakery.recipe.models.text import BuilderName, Line, PlatformName, distinct

Driver = Literal["remote", "docker-container", "kubernetes"]

_SCHEMES = ("tcp", "unix", "ssh", "docker-container", "kube-pod")
"""What buildx's remote driver dials (buildx driver/remote/factory.go, util/endpoint.go)."""

_OWN = {
    "remote": ("cacert", "cert", "key", "servername"),
    "docker-container": (),
    "kubernetes": ("replicas", "loadbalance"),
}
"""Driver options that keys of bakery's own stand for."""

_PLATFORM = re.compile(r"linux/")


def _bakeable(values: tuple[str, ...]) -> tuple[str, ...]:
    wrong = [value for value in values if not _PLATFORM.match(value)]
    if wrong:
        raise ValueError(f"expected platforms of Linux, which BuildKit builds, got {', '.join(map(repr, wrong))}")
    return distinct(values)


Slots = Annotated[int, Field(strict=True, ge=1, le=1024)]


class Tls(Model):
    """Files that prove who a node is, and who asks it (PEM); relative to the file that names them, or with ``~``."""

    ca: Line = Field(examples=["certs/ca.pem"])
    """Certificates that the node's own is signed by."""
    cert: Line | None = None
    """The certificate of who asks."""
    key: Line | None = None
    """Its key; nobody else should be able to read the file."""
    server_name: Line | None = None
    """The name in the node's certificate, where it is not that of the endpoint."""

    @model_validator(mode="after")
    def _both_or_none(self) -> Tls:
        if (self.cert is None) != (self.key is None):
            raise ValueError("expected cert and key together")
        return self


class Node(Model):
    """A machine, or a pod, that runs BuildKit."""

    name: BuilderName
    """How plans and reports call it."""
    endpoint: Line | None = Field(default=None, examples=["tcp://build1.example:1234"])
    """Where it is: ``tcp://``, ``ssh://`` or ``unix://`` for ``remote``; a context or address of Docker for
    ``docker-container``; none for ``kubernetes``."""
    platforms: Annotated[tuple[PlatformName, ...], AfterValidator(_bakeable)] | None = Field(
        default=None, examples=[["linux/arm64"]]
    )
    """What is built on it; by default what its BuildKit offers, emulated platforms among it."""
    slots: Slots | None = None
    """Cells that it bakes at a time; 2 by default."""
    replicas: Slots | None = None
    """``kubernetes``: how many pods of this kind; each is a node of its own."""
    tls: Tls | None = None
    """In place of the builder's."""
    options: dict[Line, Line] | None = Field(default=None, examples=[{"nodeselector": "kubernetes.io/arch=arm64"}])
    """Options of buildx's driver, added to the builder's."""


class Farm(Model):
    """A builder of one or more nodes, for ``--builder NAME``; its cells are spread over them."""

    driver: Driver
    """buildx's driver: ``remote`` for BuildKit that runs already, ``docker-container`` for BuildKit in a container of a
    Docker engine, ``kubernetes`` for pods."""
    nodes: tuple[Node, ...] = Field(json_schema_extra={"minItems": 1})
    """Where cells are baked."""
    tls: Tls | None = None
    """For every node of driver ``remote`` that has a ``tcp://`` endpoint."""
    options: dict[Line, Line] | None = Field(default=None, examples=[{"namespace": "build", "requests.cpu": "8"}])
    """Options of buildx's driver, for every node."""

    @model_validator(mode="after")
    def _fits_its_driver(self) -> Farm:
        if not self.nodes:
            raise ValueError("expected at least one node")
        names = [node.name for node in self.nodes]
        if len(set(names)) < len(names):
            raise ValueError("expected distinct names of nodes")
        for node in self.nodes:
            _check_node(self, node)
        return self


def _check_node(farm: Farm, node: Node) -> None:
    """Raise ValueError where a node does not fit its builder's driver."""
    own = [key for key in {**(farm.options or {}), **(node.options or {})} if key in _OWN[farm.driver]]
    if own:
        raise ValueError(f"expected keys of bakery's own, got the driver option {', '.join(map(repr, sorted(own)))}")
    if node.replicas and farm.driver != "kubernetes":
        raise ValueError(f"expected replicas with kubernetes alone, got them for node '{node.name}'")
    if farm.driver == "kubernetes" and node.endpoint:
        raise ValueError(f"expected no endpoint with kubernetes, got one for node '{node.name}'")
    if farm.driver != "remote":
        if farm.tls or node.tls:
            raise ValueError(f"expected tls with remote alone, got it with {farm.driver}")
        return
    address = urlsplit(node.endpoint or "")
    if address.scheme not in _SCHEMES:
        raise ValueError(
            f"expected an endpoint such as 'tcp://build1.example:1234' or 'ssh://build1.example' for node '{node.name}'"
        )
    if address.scheme == "tcp" and not (farm.tls or node.tls) and not _is_here(address.hostname or ""):
        raise ValueError(f"expected tls for node '{node.name}', which is reached over a network")


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Builders(Model):
    """Builders, by name."""

    builders: dict[BuilderName, Farm] | None = None
    """What ``--builder NAME`` names; each is a table ``[builders.NAME]``."""
