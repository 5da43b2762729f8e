"""Builders of many nodes: their tables, what buildx is asked, and when a node is gone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bakery.core.errors import RecipeError, UnavailableError, UsageError
from bakery.engine import nodes, oci_layouts
from bakery.engine.builder_config import nodes_of, require_nodes
from bakery.engine.nodes import Node, NodeStatus, Watch, create_arguments, native_first
from bakery.recipe.load import load

REMOTE = """\
[builders.release]
driver = "remote"
tls = { ca = "tls/ca.pem", cert = "tls/client.pem", key = "~/client.key", server-name = "build" }
[[builders.release.nodes]]
name = "amd-1"
endpoint = "tcp://build1.example:1234"
platforms = ["linux/amd64"]
slots = 8
[[builders.release.nodes]]
name = "arm"
endpoint = "ssh://build2.example"
"""

PODS = """\
[builders.pods]
driver = "kubernetes"
options = { namespace = "build", "requests.cpu" = "8" }
[[builders.pods.nodes]]
name = "arm"
replicas = 2
options = { nodeselector = "kubernetes.io/arch=arm64,pool=build" }
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with the files of TLS."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "tls").mkdir()
    for name in ("tls/ca.pem", "tls/client.pem", "client.key"):
        (tmp_path / name).touch()
    return tmp_path


def written(folder: Path, text: str) -> Path:
    (folder / "bakery.toml").write_text(text)
    return folder


def test_nodes_of_a_table(place: Path) -> None:
    amd, arm = nodes_of("release", written(place, REMOTE))
    assert amd == Node(
        "amd-1",
        "bakery-release--amd-1",
        "remote",
        "tcp://build1.example:1234",
        ("linux/amd64",),
        8,
        {
            "cacert": str(place / "tls/ca.pem"),
            "cert": str(place / "tls/client.pem"),
            "key": str(place / "client.key"),
            "servername": "build",
        },
    )
    assert arm == Node("arm", "bakery-release--arm", "remote", "ssh://build2.example")


def test_builders_stand_beside_a_recipe_in_either_file(place: Path) -> None:
    (loaded,) = load(None, written(place, 'name = "x"\n' + REMOTE))
    assert loaded.recipe.name == "x"
    other = place / "other"
    other.mkdir()
    tables = PODS.replace("[builders", "[tool.wheel-bakery.builders")
    (other / "pyproject.toml").write_text('[tool.wheel-bakery]\nname = "y"\n' + tables)
    assert [node.name for node in nodes_of("pods", other)] == ["arm-1", "arm-2"]
    assert load(None, other)[0].recipe.name == "y"


def test_arguments_for_buildx(place: Path) -> None:
    assert create_arguments(nodes_of("release", written(place, REMOTE))[0]) == [
        *("create", "--name=bakery-release--amd-1", "--node=bakery-release--amd-1", "--driver=remote"),
        f"--driver-opt=cacert={place}/tls/ca.pem",
        f"--driver-opt=cert={place}/tls/client.pem",
        f"--driver-opt=key={place}/client.key",
        "--driver-opt=servername=build",
        "tcp://build1.example:1234",
    ]
    assert create_arguments(nodes_of("pods", written(place, PODS))[1]) == [
        *("create", "--name=bakery-pods--arm-2", "--node=bakery-pods--arm-2", "--driver=kubernetes"),
        "--driver-opt=namespace=build",
        '--driver-opt="nodeselector=kubernetes.io/arch=arm64,pool=build"',
        "--driver-opt=requests.cpu=8",
    ]


def test_missing_files_and_names_are_told(place: Path) -> None:
    (place / "tls/ca.pem").unlink()
    (place / "client.key").unlink()
    with pytest.raises(UsageError) as caught:
        nodes_of("release", written(place, REMOTE))
    assert caught.value.details == (f"cacert: {place}/tls/ca.pem", f"key: {place}/client.key")
    assert nodes_of("default", place) == ()
    with pytest.raises(UsageError) as caught:
        require_nodes("relaese", place)
    assert caught.value.hint == "did you mean 'release'?"


def test_every_problem_of_a_table_is_told_with_its_line(tmp_path: Path) -> None:
    text = """\
[builders.a]
driver = "docker"
nodes = []
[builders.B]
driver = "remote"
[[builders.B.nodes]]
name = "x"
endpoint = "unix:///run/x"
[builders.c]
driver = "kubernetes"
options = { replicas = "2" }
[[builders.c.nodes]]
name = "x"
slots = 0
[builders.d]
driver = "remote"
[[builders.d.nodes]]
name = "x"
endpoint = "tcp://10.0.0.1:1234"
[builders.e]
driver = "docker-container"
[[builders.e.nodes]]
name = "x"
replicas = 2
[builders.f]
driver = "remote"
nodes = [{ name = "x", endpoint = "unix:///x" }, { name = "x", endpoint = "unix:///y" }]
"""
    with pytest.raises(RecipeError) as caught:
        nodes_of("a", written(tmp_path, text))
    told = [line for line in caught.value.details if not line.startswith(" ")]
    assert [line.partition(": ")[0].rpartition(":")[2] for line in told] == ["2", "4", "14", "15", "20", "25"]
    assert "did you mean" in told[0] or "expected one of remote" in told[0]
    assert "node 'x', which is reached over a network" in told[3]
    assert "replicas only with kubernetes" in told[4]


SAID = """\
Name:          bakery-release--amd
Driver:        remote
Last Activity: 2026-11-21 21:12:52 +0000 UTC

Nodes:
Name:           bakery-release--amd
Endpoint:       tcp://127.0.0.1:9999
Driver Options: cacert="/a b/ca.pem" servername="x\\"y"
Status:         inactive
"""
"""What buildx 0.29 says of a builder whose node does not answer."""


def test_builder_that_is_as_it_should_be_stays() -> None:
    options = {"cacert": "/a b/ca.pem", "servername": 'x"y'}
    node = Node("amd", "bakery-release--amd", "remote", "tcp://127.0.0.1:9999", options=options)
    assert nodes._is_same(nodes._fields(SAID), node)
    assert not nodes._is_same(
        nodes._fields(SAID), Node("amd", node.builder, "remote", "tcp://127.0.0.1:9998", options=options)
    )
    assert not nodes._is_same(nodes._fields(SAID), Node("amd", node.builder, "remote", node.endpoint))


def test_emulated_platforms_are_left_to_nodes_that_have_them() -> None:
    both = ("linux/amd64", "linux/386", "linux/arm64")
    amd, arm = (
        NodeStatus(Node("a", "a", "remote"), platforms=both),
        NodeStatus(Node("b", "b", "remote"), platforms=("linux/arm64",)),
    )
    assert [status.platforms for status in native_first([amd, arm])] == [("linux/amd64", "linux/386"), ("linux/arm64",)]
    assert [status.platforms for status in native_first([amd])] == [both]
    stated = NodeStatus(Node("a", "a", "remote", platforms=both[::2]), platforms=both[::2])
    assert native_first([stated, arm])[0].platforms == ("linux/amd64", "linux/arm64")


def turned(watch: Watch, now: float) -> dict[str, str]:
    """Let a watch ask, and return what it says once its answers are there."""
    watch.turn({"x"}, now)
    deadline = time.monotonic() + 20
    while not all(answer.done() for answer in watch._queries.values()) and time.monotonic() < deadline:
        time.sleep(0.001)
    return watch.turn((), now)


@pytest.fixture
def watch() -> Callable[[list[str]], Watch]:
    """Give a watch over a node that says one after the other what a list holds."""
    return lambda answers: Watch(lambda _: answers.pop(0))


def test_node_that_is_silent_twice_is_gone(watch: Callable[[list[str]], Watch]) -> None:
    own = watch(["slow", "", "slow", "dead"])
    assert turned(own, 0) == {}
    assert turned(own, 1) == {}, "asked again too early"
    assert [turned(own, 100.0 * number) for number in (1, 2, 3)] == [{}, {}, {"x": "dead"}]


def test_node_that_is_doubted_is_queried_at_once(watch: Callable[[list[str]], Watch]) -> None:
    own = watch(["", "", "dead"])
    assert turned(own, 0) == {}
    own.doubt("x")
    assert own.doubts("x")
    assert turned(own, 1) == {}
    assert not own.doubts("x")
    own.doubt("x")
    assert turned(own, 2) == {"x": "dead"}


def layout(folder: Path, *items: object) -> Path:
    (folder / "blobs" / "sha256").mkdir(parents=True)
    for path in (folder / "index.json", folder / "blobs" / "sha256" / ("0" * 64)):
        path.write_text(json.dumps({"manifests": items}))
    return folder


@pytest.mark.parametrize(
    "items",
    [
        [{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": "sha256:" + "0" * 64}] * 2,
        [{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": "../../../../etc/passwd"}],
        [{"digest": "sha256:" + "0" * 64, "platform": {"os": "x"}}] * 1001,
        [1],
        [{"digest": []}],
    ],
)
def test_an_index_without_end_is_no_layout(tmp_path: Path, items: list[object]) -> None:
    """One that names itself was read for ever."""
    with pytest.raises(UnavailableError, match="image"):
        oci_layouts._manifest(layout(tmp_path / "l", *items), "linux/amd64")
