"""Builders: sets of nodes, such as the machines of an organisation, that build the cells."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from bakery.core.cell_ids import is_baked
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import BuilderName, Line, PlatformName, distinct

Driver = Literal["remote", "docker-container", "kubernetes"]

_SCHEMES = ("tcp", "unix", "ssh", "docker-container", "kube-pod")
"""Schemes of endpoints that buildx's remote driver accepts (buildx driver/remote/factory.go, util/endpoint.go)."""

_KEYS = {
    "remote": ("cacert", "cert", "key", "servername"),
    "docker-container": (),
    "kubernetes": ("replicas", "loadbalance"),
}
"""Driver options that Bakery sets from keys of the recipe."""


def _linux_only(values: tuple[str, ...]) -> tuple[str, ...]:
    others = [value for value in values if not is_baked(value)]
    if others:
        raise invalid(
            "expected Linux platforms, which BuildKit builds",
            "leave out macOS and Windows: cibuildwheel builds there",
            got=", ".join(map(repr, others)),
            quotes_value=True,
        )
    return distinct(values)


Slots = Annotated[int, Field(strict=True, ge=1, le=1024)]


class Tls(Model):
    """TLS files (PEM) that authenticate node and client. Paths are relative to this file, or start with ``~``."""

    ca: Line = Field(examples=["certs/ca.pem"])
    """The CA certificates that signed the node's certificate."""
    cert: Line | None = None
    """The client certificate."""
    key: Line | None = None
    """The private key of the client certificate. Only you should be able to read this file."""
    server_name: Line | None = None
    """The name in the node's certificate, if it differs from the host of the endpoint."""

    @model_validator(mode="after")
    def _both_or_none(self) -> Tls:
        if (self.cert is None) != (self.key is None):
            raise invalid("expected cert and key together", "add the other one")
        return self


class Node(Model):
    """A node of the builder: a machine or a pod that runs BuildKit."""

    name: BuilderName
    """The name of the node in plans and reports."""
    endpoint: Line | None = Field(default=None, examples=["tcp://build1.example:1234"])
    """The address of the node. For ``remote``: ``tcp://``, ``ssh://`` or ``unix://``. For ``docker-container``: a
    Docker context or the address of a Docker engine. Not for ``kubernetes``."""
    platforms: Annotated[tuple[PlatformName, ...], AfterValidator(_linux_only)] | None = Field(
        default=None, examples=[["linux/arm64"]]
    )
    """The platforms to build on this node. By default, those that its BuildKit offers, including emulated ones."""
    slots: Slots | None = None
    """The number of cells that the node builds in parallel. Default: 2."""
    replicas: Slots | None = None
    """For ``kubernetes``, the number of pods. Each pod is a separate node."""
    tls: Tls | None = None
    """TLS files of this node. They replace those of the builder."""
    options: dict[Line, Line] | None = Field(default=None, examples=[{"nodeselector": "kubernetes.io/arch=arm64"}])
    """Options of the buildx driver for this node, added to those of the builder."""


class Farm(Model):
    """A builder with one or more nodes, selected with ``--builder NAME``. The cells are distributed over its nodes."""

    driver: Driver
    """The buildx driver: ``remote`` for a running BuildKit, ``docker-container`` for BuildKit in a container of a
    Docker engine, ``kubernetes`` for BuildKit in pods."""
    nodes: tuple[Node, ...] = Field(json_schema_extra={"minItems": 1})
    """The nodes that build the cells."""
    tls: Tls | None = None
    """TLS files for all nodes with driver ``remote`` and a ``tcp://`` endpoint."""
    options: dict[Line, Line] | None = Field(default=None, examples=[{"namespace": "build", "requests.cpu": "8"}])
    """Options of the buildx driver for all nodes."""

    @model_validator(mode="after")
    def _fits_its_driver(self) -> Farm:
        if not self.nodes:
            raise invalid("expected at least one node", "add a value, or remove the key")
        names = [node.name for node in self.nodes]
        if len(set(names)) < len(names):
            raise invalid("expected distinct names of nodes", "give each node a name of its own")
        for node in self.nodes:
            _check_node(self, node)
        return self


def _check_node(farm: Farm, node: Node) -> None:
    """Raise an error if a node does not match the driver of its builder."""
    options = sorted(key for key in {**(farm.options or {}), **(node.options or {})} if key in _KEYS[farm.driver])
    if options:
        raise invalid(
            "expected Bakery's own keys",
            "write cacert, cert, key and servername as tls, replicas as the node's replicas; Bakery chooses the pod",
            got=f"the driver option {', '.join(map(repr, options))}",
        )
    if node.replicas and farm.driver != "kubernetes":
        hint = "remove replicas, or write a table for each node"
        raise invalid("expected replicas only with kubernetes", hint, got=f"them for node '{node.name}'")
    if farm.driver == "kubernetes" and node.endpoint:
        hint = "remove endpoint: kubectl's configuration says which cluster it is"
        raise invalid("expected no endpoint with kubernetes", hint, got=f"one for node '{node.name}'")
    if farm.driver != "remote":
        if farm.tls or node.tls:
            hint = "remove tls: Docker and Kubernetes have their own"
            raise invalid("expected tls only with remote", hint, got=f"it with {farm.driver}")
        return
    address = urlsplit(node.endpoint or "")
    if address.scheme not in _SCHEMES:
        raise invalid(
            f"expected an endpoint such as 'tcp://build1.example:1234' or 'ssh://build1.example' for node '{node.name}'",
            'add endpoint = "…"',
        )
    if address.scheme == "tcp" and not (farm.tls or node.tls) and not _is_loopback(address.hostname or ""):
        raise invalid(
            f"expected tls for node '{node.name}', which is reached over a network",
            'add tls = { ca = "…", cert = "…", key = "…" }, or reach it by ssh://',
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Builders(Model):
    """All builders of a file, by name."""

    builders: dict[BuilderName, Farm] | None = None
    """Builders that ``--builder NAME`` selects. Each is a table ``[builders.NAME]``."""
