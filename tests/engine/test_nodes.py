"""Cells spread over nodes: three engines with data roots, sockets and networks of their own, over TCP with TLS."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import stores
from command import Done, bakery, digests, finish, start
from farm import EngineNode, engine_nodes, free_port, table
from projects import SOURCE, extension, flavours

pytestmark = [pytest.mark.engine, pytest.mark.skipif(os.geteuid() != 0, reason="a private engine needs root")]

SECRET = '[secrets.token]\nenv = "NODE_TEST_TOKEN"\nsteps = ["compile"]\nvariable = "TOKEN"\n'
# The wheel of this backend holds its environment, and the audit refuses one with a secret in it.
TOLD = """\
    assert os.environ.pop("TOKEN") == "tell-nobody"
    time.sleep({seconds})
"""
"""Of `build_wheel`, which alone gets the secret: what the backend requires is asked without it."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EngineNode]]:
    """Give three nodes."""
    # A unix socket's path has at most 107 bytes.
    with engine_nodes(tmp_path_factory.mktemp("n"), ["one", "two", "three"]) as made:
        yield made


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Give builders of buildx of this test's own, and the secret."""
    return {
        "BUILDX_CONFIG": str(tmp_path / "buildx"),
        "NODE_TEST_TOKEN": "tell-nobody",
        "BAKERY_ALLOW": "secret.env=NODE_TEST_TOKEN",
    }


def project(folder: Path, cells: str, tables: str, seconds: float) -> Path:
    """Write a project with a cell for each letter, which takes ``seconds`` to compile."""
    flavours(folder, list(cells), "")
    backend = folder / "backend.py"
    before, after = backend.read_text().split("    told = {")
    backend.write_text(f"{before}{TOLD.format(seconds=seconds)}    told = {{{after}")
    recipe = folder / "bakery.toml"
    recipe.write_text(recipe.read_text() + SECRET + tables)
    return folder


def where(done: Done) -> dict[str, str]:
    """Return cell → the node that baked it, by a run's report."""
    return {str(item["cell"]).removeprefix("cp311-flavour"): str(item["node"]) for item in done.results().values()}


def absent() -> str:
    """Return the table of a node that nobody started."""
    return f'[[builders.farm.nodes]]\nname = "absent"\nendpoint = "tcp://127.0.0.1:{free_port()}"\nslots = 9\n'


@pytest.mark.proof
def test_cells_are_spread_and_the_same(tmp_path: Path, nodes: list[EngineNode], environment: dict[str, str]) -> None:
    folder = project(tmp_path / "project", "abcdef", table(nodes, slots=1, more=absent()), 3)
    done = bakery(folder, "wheel", "--builder", "farm", environment=environment)
    assert "builder farm: skipped: absent: " in done.err
    spread = where(done)
    assert set(spread.values()) == {"one", "two", "three"}
    assert max(Counter(spread.values()).values()) <= 3
    there = digests(folder / "dist")
    assert len(there) == 6

    # What is finished is left out, whoever built it; and one engine makes the same bytes.
    again = bakery(folder, "wheel", "--builder", "farm", "--resume", environment=environment)
    assert {item["result"] for item in again.results().values()} == {"kept"}
    bakery(folder, "wheel", "--output", "here", environment=environment)
    assert digests(folder / "here") == there

    listed = json.loads(bakery(folder, "builders", "ls", "--json", environment=environment).out)["builders"]["farm"]
    assert {item["node"]: item["up"] for item in listed} == {"one": True, "two": True, "three": True, "absent": False}
    assert all(item["platforms"] == ["linux/amd64"] and item["slots"] == 1 for item in listed if item["up"])
    assert "removed 4 builders of buildx" in bakery(folder, "builders", "rm", "farm", environment=environment).out


@pytest.mark.proof
def test_nodes_share_objects_in_a_store(tmp_path: Path, nodes: list[EngineNode], environment: dict[str, str]) -> None:
    recipe = 'name = "tiny"\n[matrix]\npython = ["3.11"]\n'
    folder = extension(tmp_path / "project", recipe, f'extern "C" const char fresh[] = "{uuid.uuid4()}";\n{SOURCE}')
    with stores.redis(tmp_path) as store:
        there = {**environment, **store, "BAKERY_CACHE_KEY": uuid.uuid4().hex}
        counts = []
        for node in nodes[:2]:
            (folder / "bakery.toml").write_text(recipe + table([node], slots=1))
            done = bakery(folder, "wheel", "--builder", "farm", environment=there)
            (result,) = done.results().values()
            counts.append((result["node"], result["compiler_cache"]))
    assert counts == [("one", {"compilations": 1, "hits": 0}), ("two", {"compilations": 1, "hits": 1})]
    assert "node two: compiler cache: 1 object (" in done.err


def test_no_node_that_answers(tmp_path: Path, environment: dict[str, str]) -> None:
    head = '[builders.farm]\ndriver = "remote"\n'
    folder = project(tmp_path / "project", "a", head + absent(), 0)
    done = bakery(folder, "wheel", "--builder", "farm", code=6, environment=environment)
    assert "builder farm: no node answers" in done.err
    assert "absent: " in done.err
    assert not (folder / "dist").exists()


def test_no_node_for_a_platform(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> None:
    with engine_nodes(tmp_path_factory.mktemp("n"), ["one"]) as nodes:
        folder = project(tmp_path / "project", "a", table(nodes, slots=1), 0)
        recipe = folder / "bakery.toml"
        recipe.write_text('platforms = ["linux/arm64"]\n' + recipe.read_text())
        done = bakery(folder, "wheel", "--builder", "farm", code=6, environment=environment)
    assert "builder farm has no reachable node for linux/arm64" in done.err


@pytest.mark.proof
def test_node_is_killed_while_it_bakes(tmp_path: Path, nodes: list[EngineNode], environment: dict[str, str]) -> None:
    cells, tables = "abcdefghijkl", table(nodes, slots=2)
    # Builders are there before: what is killed is a node that compiles.
    bakery(
        project(tmp_path / "warm", "xyz", table(nodes, slots=1), 1),
        "wheel",
        "--builder",
        "farm",
        environment=environment,
    )
    folder = project(tmp_path / "project", cells, tables, 15)
    began = time.monotonic()
    child = start(folder, "wheel", "--builder", "farm", environment=environment)
    deadline = time.monotonic() + 300
    while not list(folder.glob("dist/*.whl")) and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.1)
    time.sleep(3)
    nodes[1].kill()
    done = finish(child, folder, began)
    try:
        assert done.code == 0, done.err[-4000:]
        assert "node two is gone: " in done.err
        moved = [item for item in done.results().values() if item["left"] == ["two"]]
        assert moved, "nothing was baked on it"
        for item in moved:
            assert (item["result"], item["tries"]) == ("done", 1)
            assert item["node"] in ("one", "three")
        wheels = digests(folder / "dist")
        assert len(wheels) == len(cells)
        bakery(folder, "audit", *(f"dist/{name}" for name in wheels), environment=environment)
        bakery(folder, "wheel", "--output", "here", environment=environment)
        assert digests(folder / "here") == wheels
    finally:
        nodes[1].start()


@pytest.mark.proof
def test_last_node_goes_away(tmp_path: Path, nodes: list[EngineNode], environment: dict[str, str]) -> None:
    folder = project(tmp_path / "project", "ab", table(nodes[2:], slots=1), 20)
    began = time.monotonic()
    child = start(folder, "wheel", "--builder", "farm", environment=environment)
    deadline = time.monotonic() + 300
    while not list(folder.glob("dist/*.whl")) and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.1)
    time.sleep(2)
    nodes[2].kill()
    done = finish(child, folder, began)
    assert done.code == 11, done.err[-4000:]
    assert "no node for linux/amd64 is left" in done.err
    nodes[2].start()
    done = bakery(folder, "wheel", "--builder", "farm", "--resume", environment=environment)
    assert sorted(str(item["result"]) for item in done.results().values()) == ["done", "kept"]
