"""Builders of many nodes: buildx takes the arguments that bakery makes of a table, and refuses what it does not know.

Nothing is reached: buildx parses a driver's options when a builder is made (driver/*/factory.go).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from bakery.core.errors import EngineError
from bakery.engine.builder_config import nodes_of
from bakery.engine.discover import find_client
from bakery.engine.nodes import Client, Node, create_arguments

NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none", "namespace": "default"}}],
    "current-context": "none",
}
"""A configuration of kubectl (JSON is YAML) that leads to no cluster."""


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """Give the environment of a docker client with builders of its own, and a cluster that is not there."""
    try:
        found = {**os.environ, **find_client(os.environ)}
    except EngineError as error:
        pytest.fail(f"{error.message}: {error.hint}", pytrace=False)
    (tmp_path / "kubeconfig").write_text(json.dumps(NOWHERE))
    return {**found, "BUILDX_CONFIG": str(tmp_path / "buildx"), "KUBECONFIG": str(tmp_path / "kubeconfig")}


def create(environment: Mapping[str, str], node: Node) -> str:
    """Make the builder of a node; return what buildx refuses, nothing where it takes it."""
    command = ["docker", "buildx", *create_arguments(node)]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def pods(folder: Path, text: str) -> tuple[Node, ...]:
    head = '[builders.pods]\ndriver = "kubernetes"\n'
    (folder / "bakery.toml").write_text(head + text)
    return nodes_of("pods", folder)


def test_kubernetes_of_the_guide(environment: Mapping[str, str], tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()
    (table,) = [part for part in guide.split("```") if 'driver = "kubernetes"' in part]
    (tmp_path / "bakery.toml").write_text(table.removeprefix("toml\n"))
    nodes = nodes_of("pods", tmp_path)
    assert [node.name for node in nodes] == [*(f"amd-{n}" for n in range(1, 7)), *(f"arm-{n}" for n in range(1, 5))]
    for node in (nodes[0], nodes[-1]):
        assert create(environment, node) == ""
        made = json.loads((tmp_path / "buildx" / "instances" / node.builder).read_text())
        assert made["Driver"] == "kubernetes"
        (own,) = made["Nodes"]
        assert own["DriverOpts"] == dict(node.options)
        # The Deployment's name is a DNS label.
        assert f"deployment={node.builder}" in own["Endpoint"]


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ('"requests.cpu" = "lots"', "quantities must match"),
        ('timeout = "soon"', "cannot parse timeout"),
        ('nodeselector = "arm64"', "cannot parse node selector"),
        ('flavour = "sweet"', "invalid driver option flavour"),
    ],
)
def test_kubernetes_options_that_buildx_refuses(
    environment: Mapping[str, str], tmp_path: Path, option: str, reason: str
) -> None:
    (node,) = pods(tmp_path, f'options = {{ {option} }}\nnodes = [{{ name = "one" }}]\n')
    assert reason in create(environment, node)
    with pytest.raises(EngineError, match="node one: failed to initialize builder"):
        Client(environment).up(node)


def test_remote_builder_is_made_once(environment: Mapping[str, str], tmp_path: Path) -> None:
    for name in ("ca", "me", "key"):
        (tmp_path / f"{name}, x.pem").touch()
    tls = 'tls = { ca = "ca, x.pem", cert = "me, x.pem", key = "key, x.pem", server-name = "build" }'
    table = f'[builders.far]\ndriver = "remote"\n{tls}\n[[builders.far.nodes]]\nname = "a"\nendpoint = "tcp://127.0.0.1:%d"\n'
    client = Client(environment)
    (tmp_path / "bakery.toml").write_text(table % 9)
    (node,) = nodes_of("far", tmp_path)
    assert client.up(node)
    assert not client.up(node), "it was there as it should be"
    assert client.status(node).fault
    (tmp_path / "bakery.toml").write_text(table % 10)
    (changed,) = nodes_of("far", tmp_path)
    assert client.up(changed)
    subprocess.run(
        ["docker", "buildx", "create", "--name=bakery-farther--a", "--driver=remote", "tcp://127.0.0.1:9"],
        env=dict(environment),
        check=True,
    )
    assert client.created("far") == [node.builder]
    client.down(node.builder)
    assert client.created("far") == []
    assert client.created("farther") == ["bakery-farther--a"]
