"""Layer caches: built on one engine, and never again; and when their servers fail, everything is built after all."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import secrets
import shutil
import tarfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from canaries import DIGITS, Spellings
from command import Done, bakery, digests, shell, start
from farm import EngineNode, engine_nodes
from faultyregistry import FaultyRegistry, faulty_registry
from ghacache import Fault, GhaCache, gha_cache
from projects import SOURCE, extension, pure

from bakery.engine.paths import engine_paths

pytestmark = [pytest.mark.engine, pytest.mark.skipif(os.geteuid() != 0, reason="a private engine needs root")]

RECIPE = """\
name = "tiny"
[matrix]
python = ["3.11"]
[test]
imports = ["tiny"]
[cache]
compression = "zstd"
compression-level = 1
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EngineNode]]:
    """Give two engines that have nothing.

    What an engine of many other builds exports to a cache has the keys of all of them: some 8 MB after 8,000 steps.
    BuildKit sends a local cache in messages of at most 4 MB, and took 13 minutes to write such keys.
    """
    # A unix socket's path has at most 107 bytes.
    with engine_nodes(tmp_path_factory.mktemp("c"), ["one", "other"]) as made:
        yield made


@pytest.fixture(scope="module")
def other(nodes: list[EngineNode]) -> EngineNode:
    """Give another engine than this machine's, which has nothing."""
    return nodes[1]


@pytest.fixture(scope="module")
def gha() -> Iterator[GhaCache]:
    """Give GitHub's cache, for this machine and for its namespaces."""
    with gha_cache("0.0.0.0") as made:
        yield made


def pruned(node: EngineNode) -> None:
    """Drop every layer that an engine built."""
    shell(node.reaching(), "docker", "buildx", "prune", "--all", "--force")
    # containerd deletes them some time later, with layers that a build found there and took over until then ("parent
    # snapshot … does not exist"). Once a lease is deleted with --sync, all of them are gone.
    contents(node, "leases", "create", "--id", "emptied")
    contents(node, "leases", "delete", "--sync", "emptied")


def contents(node: EngineNode, *words: str) -> str:
    """Run ``ctr`` in an engine's containerd; return what it prints."""
    socket = engine_paths(node.environ).exec_root / "containerd" / "containerd.sock"
    return shell(os.environ, str(node.prefix.bin / "ctr"), "--address", str(socket), "--namespace", "moby", *words)


def project(folder: Path) -> Path:
    """Write a project whose compile step nobody ran."""
    return extension(folder, RECIPE, f'extern "C" const char fresh[] = "{uuid.uuid4()}";\n{SOURCE}')


@contextlib.contextmanager
def backend(kind: str, nodes: Sequence[EngineNode], gha: GhaCache, registry: str) -> Iterator[list[dict[str, str]]]:
    """Give the environment of each engine with a cache of a kind."""
    # Layers with compiled objects are those of one project, or of all who have the key.
    own = {"BAKERY_CACHE": kind, "BAKERY_CACHE_KEY": uuid.uuid4().hex}
    if kind == "gha":
        yield [{**node.reaching(), **own, **gha.environment(node.gateway)} for node in nodes]
        return
    own |= {"BAKERY_CACHE_REF": f"{registry}/cache/{uuid.uuid4().hex}", "BAKERY_CACHE_DIR": ".bakery/cache"}
    with contextlib.ExitStack() as forwarded:
        if kind == "registry":
            for node in nodes:
                forwarded.enter_context(node.forwarded(int(registry.rpartition(":")[2])))
        yield [{**node.reaching(), **own} for node in nodes]


def moved(folder: Path, to: Path) -> Path:
    """Copy a project as it would be on another machine: with its local cache, and no run."""
    ignored = shutil.ignore_patterns("dist", "runs")
    shutil.copytree(folder, to, ignore=ignored)
    return to


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["registry", "local", "gha"])
def test_another_engine_builds_nothing_again(
    tmp_path: Path, nodes: list[EngineNode], gha: GhaCache, registry: str, kind: str
) -> None:
    folder = project(tmp_path / "project")
    with backend(kind, nodes, gha, registry) as (here, there):
        first = bakery(folder, "full", environment=here)
        assert any("[compile " in step for step in first.ran())
        assert not troubles(first), first.err
        pruned(nodes[1])
        again = bakery(moved(folder, tmp_path / "moved"), "full", environment=there)
    assert again.ran() == []
    assert not troubles(again), again.err
    assert digests(tmp_path / "moved" / "dist") == digests(folder / "dist")
    if kind == "local":
        # They hold what was to be written.
        assert written(tmp_path / "moved") == written(folder)


GIT = "import subprocess\nsubprocess.run(['git', 'rev-parse', 'HEAD'], check=True)"


@pytest.mark.proof
@pytest.mark.parametrize("setup", ["", GIT], ids=["plain", "asks git"])
def test_nothing_of_a_project_that_is_baked_meanwhile(tmp_path: Path, nodes: list[EngineNode], setup: str) -> None:
    """BuildKit merges equal steps of builds that run at the same time; a cache gets what they started from in both."""
    hidden = Spellings({"hidden": secrets.token_hex(DIGITS)})
    test = "import time; print('ready', flush=True); time.sleep(900)"
    recipe = f'name = "tiny"\n[matrix]\npython = ["3.11"]\n[test]\ncommand = "python -c \\"{test}\\""\n'
    text = f'extern "C" const char hidden[] = "{hidden.values["hidden"]}";\n{SOURCE}'
    other = with_git(extension(tmp_path / "hidden", recipe, text, setup=setup))
    environment = {**nodes[0].reaching(), "XDG_STATE_HOME": str(tmp_path / "state")}
    child = start(other, "full", environment=environment)
    # It goes on whatever it prints.
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(child.communicate()))
    reader.start()
    try:
        while not any("ready" in path.read_text() for path in tmp_path.glob("state/**/logs/test-*.log")):
            assert reader.is_alive(), said
            time.sleep(0.2)
        folder = with_git(extension(tmp_path / "project", RECIPE.partition("[cache]")[0], SOURCE, setup=setup))
        cache = {"BAKERY_CACHE": "local", "BAKERY_CACHE_DIR": str(tmp_path / "cache")}
        done = bakery(folder, "full", environment={**nodes[0].reaching(), **cache})
    finally:
        child.terminate()
        reader.join()
    assert not troubles(done), done.err
    assert list((tmp_path / "cache").glob("*/index.json"))
    assert hidden.holders(tmp_path / "cache") == []
    # It would be found: the other project's own cache has it.
    bakery(other, "wheel", environment={**environment, **cache, "BAKERY_CACHE_DIR": str(tmp_path / "own")})
    assert hidden.holders(tmp_path / "own") != []


def with_git(folder: Path) -> Path:
    """Make a repository of a project, with one commit."""
    for words in (("init", "-q"), ("add", "."), ("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "all")):
        shell(os.environ, "git", *words, cwd=folder)
    return folder


@pytest.mark.proof
def test_what_only_reads_writes_nothing(tmp_path: Path) -> None:
    folder = one(tmp_path / "project")
    own = {"BAKERY_CACHE": "local", "BAKERY_CACHE_DIR": ".bakery/cache"}
    done = bakery(folder, "wheel", environment={**own, "BAKERY_CACHE_READ_ONLY": "true"})
    assert not troubles(done)
    assert not (folder / ".bakery" / "cache").exists()


def written(folder: Path) -> dict[str, int]:
    """Return local cache → when it was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob(".bakery/cache/*/index.json")}


@pytest.mark.proof
def test_a_layer_that_the_engine_lost_is_built_again(tmp_path: Path, other: EngineNode) -> None:
    folder = one(tmp_path / "project")
    bakery(folder, "wheel", environment=other.reaching())
    known = shell(other.reaching(), "docker", "buildx", "du", "--verbose", "--filter", "description~=demo-wheel")
    (layer,) = re.findall(r"(?m)^ID:\s+(\S+)", known)
    contents(other, "snapshots", "rm", layer)
    shutil.rmtree(folder / "dist")
    again = bakery(folder, "wheel", environment=other.reaching())
    assert "again without the engine's build cache" in again.err
    assert len(again.wheels) == 1
    shutil.rmtree(folder / "dist")
    assert "again" not in bakery(folder, "wheel", environment=other.reaching()).err


def troubles(done: Done) -> list[str]:
    """Return what the report says of the layer cache."""
    return [text for item in done.results().values() for text in list(item["cache_troubles"])]  # type: ignore[call-overload]


@pytest.mark.proof
def test_what_compilers_made_is_carried_to_an_engine_that_has_nothing(tmp_path: Path, other: EngineNode) -> None:
    folder = project(tmp_path / "project")
    kept = tmp_path / "kept"
    there = {**other.reaching(), "BAKERY_COMPILER_CACHE": str(kept)}
    first = bakery(folder, "wheel", environment=there)
    assert first.results()["wheel-cp311"]["compiler_cache"] == {"compilations": 1, "hits": 0}
    with tarfile.open(kept / "linux_amd64" / "ccache.tar") as packed:
        # ccache's name of a result; there are no manifests (`CCACHE_NODIRECT`).
        assert [name[-1] for name in packed.getnames() if name[-1] in "MR"] == ["R"]
    # Another source for BuildKit, and none for a compiler.
    source = folder / "src" / "core.cpp"
    source.write_text(source.read_text() + "\n// the end\n")
    # With all that compilers left there. The packages of both builds are of one day: other headers are other sources.
    pruned(other)
    again = bakery(moved(folder, tmp_path / "moved"), "wheel", environment=there)
    assert any("[compile " in step for step in again.ran())
    assert again.results()["wheel-cp311"]["compiler_cache"] == {"compilations": 1, "hits": 1}
    assert digests(tmp_path / "moved" / "dist") == digests(folder / "dist")


@pytest.mark.proof
def test_compiler_caches_of_the_same_size_are_told_apart(tmp_path: Path) -> None:
    """BuildKit does not send a file again whose size and time it knows, also if it is in another folder."""
    names, archives = ("one", "two"), []
    for name in names:
        bakery(project(tmp_path / name / "project"), "wheel", "--compiler-cache", str(tmp_path / name / "kept"))
        archives.append(tmp_path / name / "kept" / "linux_amd64" / "ccache.tar")
    size = max(path.stat().st_size for path in archives)
    for path in archives:
        times = path.stat().st_atime_ns, path.stat().st_mtime_ns
        # An archive may end with zeros.
        os.truncate(path, size)
        os.utime(path, ns=times)
    for name in names:
        environment = {"BAKERY_CACHE_KEY": uuid.uuid4().hex}
        (tmp_path / name / "project" / "fresh.txt").write_text("another source for BuildKit, and none for a compiler\n")
        kept = str(tmp_path / name / "kept")
        done = bakery(tmp_path / name / "project", "wheel", "--compiler-cache", kept, environment=environment)
        assert done.results()["wheel-cp311"]["compiler_cache"] == {"compilations": 1, "hits": 1}


@pytest.mark.proof
def test_a_damaged_compiler_cache_fails_no_build(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    kept = tmp_path / "kept" / "linux_amd64" / "ccache.tar"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"no archive" * 100)
    done = bakery(folder, "wheel", environment={"BAKERY_COMPILER_CACHE": str(tmp_path / "kept")})
    assert "the compiler cache was not restored: " in done.err
    assert len(done.wheels) == 1


def with_gha(node: EngineNode, gha: GhaCache) -> dict[str, str]:
    """Return the environment of an engine with GitHub's cache."""
    return {**node.reaching(), "BAKERY_CACHE": "gha", **gha.environment(node.gateway)}


def one(folder: Path) -> Path:
    """Write a project that is built in a moment, and that nobody built."""
    # BuildKit waits ten minutes for a server that hangs up while it writes.
    made = pure(folder, 'name = "demo"\n[wheel]\nrepair = false\n[cache.gha]\ntimeout = "15s"\n')
    (made / "fresh.txt").write_text(str(uuid.uuid4()))
    return made


WRITING = {
    "another job was first": ([Fault("CreateCacheEntry", "409")], ""),
    "busy, then free": ([Fault("CreateCacheEntry", "429", times=2)], ""),
    "the service fails": ([Fault("CreateCacheEntry", "500", times=99)], "exporting to GitHub Actions Cache: "),
    "an address that ended": ([Fault("put", "403", times=99), Fault("block", "403", times=99)], "exporting to "),
    "no answer": ([Fault("FinalizeCacheEntryUpload", "reset", times=99)], "exporting to GitHub Actions Cache: "),
}


@pytest.mark.proof
@pytest.mark.parametrize("name", WRITING)
def test_a_cache_that_cannot_be_written_fails_no_build(
    tmp_path: Path, nodes: list[EngineNode], gha: GhaCache, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults, said = WRITING[name]
    monkeypatch.setattr(gha, "faults", [Fault(one.request, one.kind, one.times, one.after) for one in faults])
    gha.met = 0
    folder = one(tmp_path / "project")
    done = bakery(folder, "wheel", environment=with_gha(nodes[0], gha))
    assert len(done.wheels) == 1
    assert gha.met
    if said:
        assert any(text.startswith(said) for text in troubles(done)), done.err
        assert f"layer cache: {said}" in done.err
    else:
        assert not troubles(done), done.err


READING: dict[str, list[Fault]] = {
    "busy, then free": [Fault("GetCacheEntryDownloadURL", "429", times=2)],
    "the service fails": [Fault("GetCacheEntryDownloadURL", "500", times=99)],
    "an address that ended": [Fault("get", "403")],
    "addresses that end at once": [Fault("get", "403", times=99, after=1)],
    "cut off": [Fault("get", "truncated", times=99, after=1)],
    "other bytes": [Fault("get", "lie", times=99, after=1)],
    # For ever, the BuildKit of Docker 28.5 would not be stopped: it asks on, whoever cancels, and other bakes wait for it.
    "no answer": [Fault("get", "reset", times=9, after=1)],
    "forgotten": [Fault("get", "404", times=99, after=1)],
}


@pytest.mark.proof
@pytest.mark.parametrize("name", READING)
def test_a_cache_that_cannot_be_read_fails_no_build(
    tmp_path: Path, nodes: list[EngineNode], gha: GhaCache, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = one(tmp_path / "project")
    bakery(folder, "wheel", environment=with_gha(nodes[0], gha))
    gha.met = 0
    monkeypatch.setattr(gha, "faults", [Fault(one.request, one.kind, one.times, one.after) for one in READING[name]])
    again = bakery(moved(folder, tmp_path / "moved"), "wheel", environment=with_gha(nodes[1], gha))
    assert gha.met
    assert digests(tmp_path / "moved" / "dist") == digests(folder / "dist")
    assert len(again.wheels) == 1


def gone(environment: Mapping[str, str], folder: Path) -> Done:
    """Bake with a cache whose server nobody hears; return what it came to."""
    done = bakery(folder, "wheel", environment=environment)
    assert len(done.wheels) == 1
    return done


@pytest.mark.proof
def test_a_server_that_is_gone_is_told(tmp_path: Path) -> None:
    with gha_cache() as cache:
        environment = {"BAKERY_CACHE": "gha", **cache.environment()}
    done = gone(environment, one(tmp_path / "project"))
    assert any("connection refused" in text for text in troubles(done)), done.err
    report = json.loads((done.runs[-1] / "report.json").read_text())
    assert report["succeeded"] == "all"


def test_a_cache_of_github_without_its_token_is_refused(tmp_path: Path) -> None:
    environment = {"BAKERY_CACHE": "gha", "ACTIONS_RUNTIME_TOKEN": "", "ACTIONS_CACHE_URL": ""}
    done = bakery(one(tmp_path / "project"), "wheel", code=4, environment=environment)
    assert "cache-gha-token: backend gha: the environment does not set ACTIONS_RUNTIME_TOKEN" in done.err


GHA_FAULTS = {
    "writing": [
        *(("CreateCacheEntry", kind) for kind in ("409", "429", "500", "403", "reset")),
        *(("FinalizeCacheEntryUpload", kind) for kind in ("500", "404", "reset")),
        *(("put", kind) for kind in ("403", "500", "reset")),
    ],
    "reading": [
        *(("GetCacheEntryDownloadURL", kind) for kind in ("429", "500", "403", "miss", "reset")),
        *(("get", kind) for kind in ("403", "404", "500", "truncated", "lie", "reset")),
    ],
}
REGISTRY_FAULTS = {
    "writing": [(request, kind) for request in ("upload", "tag") for kind in ("500", "403", "429", "reset")],
    "reading": [
        (request, kind)
        for request in ("manifest", "blob")
        for kind in ("500", "403", "404", "truncated", "lie", "reset")
    ],
}
HALF = 50


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["gha", "registry"])
def test_100_faults_fail_no_build_and_make_no_wrong_wheel(
    tmp_path: Path, nodes: list[EngineNode], gha: GhaCache, registry: str, kind: str
) -> None:
    # Half of the hundred are met at each server.
    seed = int(os.environ.get("BAKERY_TEST_SEED", "20261122"))
    rng = random.Random(f"{seed} {kind}")
    with faulty_registry(registry) as before, nodes[0].forwarded(before.port), nodes[1].forwarded(before.port):
        server: GhaCache | FaultyRegistry = gha if kind == "gha" else before
        known = GHA_FAULTS if kind == "gha" else REGISTRY_FAULTS
        server.met = 0
        rounds = 0
        while server.met < HALF:
            rounds += 1
            assert rounds <= 4 * HALF, "faults are not met"
            folder = one(tmp_path / f"{rounds}")
            ref = {"BAKERY_CACHE": "registry", "BAKERY_CACHE_REF": f"127.0.0.1:{before.port}/faults/{rounds}"}
            here, there = (with_gha(node, gha) if kind == "gha" else {**node.reaching(), **ref} for node in nodes)
            server.faults = chosen(rng, known["writing"]) if rounds % 2 else []
            bakery(folder, "wheel", environment=here)
            server.faults = chosen(rng, known["reading"])
            again = bakery(moved(folder, tmp_path / f"{rounds}-moved"), "wheel", environment=there)
            assert len(again.wheels) == 1
            assert digests(again.folder / "dist") == digests(folder / "dist"), f"seed {seed}, round {rounds}"
            server.faults = []
    print(f"{kind}: {server.met} faults in {rounds} rounds")


def chosen(rng: random.Random, known: Sequence[tuple[str, str]]) -> list[Fault]:
    """Return one to three faults, each met up to three times."""
    return [Fault(*rng.choice(known), times=rng.randint(1, 3)) for _ in range(rng.randint(1, 3))]
