"""Compiler caches in a store: what one machine compiled, another one takes; and no step knows the store."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import stores
from command import Done, bakery, digests
from farm import EngineNode, engine_nodes
from hostile_servers import serving
from projects import SOURCE, extension

pytestmark = pytest.mark.engine

RECIPE = 'name = "tiny"\n[matrix]\npython = ["3.11"]\n'


@pytest.fixture(scope="module", params=["redis", pytest.param("s3", marks=pytest.mark.proof)])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Give the environment of a store, and of machines that share it."""
    kind = {"redis": stores.redis, "s3": stores.s3}[request.param]
    with kind(tmp_path_factory.mktemp("store")) as environment:
        yield environment


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineNode]:
    """Give another engine, which has nothing."""
    # A unix socket's path has at most 107 bytes.
    with engine_nodes(tmp_path_factory.mktemp("r"), ["other"]) as (node,):
        yield node


def project(folder: Path) -> Path:
    """Write a project whose compile step nobody ran; it fails if it can see the store or its password."""
    looks = (
        "import os\nassert not [name for name in os.environ if 'CACHE_PASSWORD' in name or 'CACHE_KEY' in name]\n"
        "assert os.listdir('/sys/class/net') == ['lo']\n"
    )
    return extension(folder, RECIPE, f'extern "C" const char fresh[] = "{uuid.uuid4()}";\n{SOURCE}', setup=looks)


def statistics(done: Done) -> object:
    """Return what the report says of the compiler cache."""
    return done.results()["wheel-cp311"]["compiler_cache"]


def changed(folder: Path) -> None:
    """Change the source for BuildKit, and for no compiler."""
    (folder / f"{uuid.uuid4()}.txt").write_text("more\n")


@pytest.mark.proof
def test_objects_come_from_the_store(
    tmp_path: Path, store: dict[str, str], debian: str, engine_environment: Mapping[str, str]
) -> None:
    folder, here = project(tmp_path / "project"), {**store, "BAKERY_CACHE_KEY": uuid.uuid4().hex}
    reads = {**here, "BAKERY_COMPILER_CACHE_READ_ONLY": "true"}
    # What only reads stores nothing.
    assert statistics(bakery(folder, "wheel", environment=reads)) == {"compilations": 1, "hits": 0}
    changed(folder)
    stores.empty_compiler_cache(here, engine_environment, tmp_path / "first")
    first = bakery(folder, "wheel", environment=here)
    assert statistics(first) == {"compilations": 1, "hits": 0}
    assert re.search(r"compiler cache: 1 object \([0-9.]+ kB\) saved", first.err), first.err
    before = digests(folder / "dist")
    changed(folder)
    stores.empty_compiler_cache(here, engine_environment, tmp_path / "second")
    again = bakery(folder, "wheel", environment=reads)
    assert re.search(r"compiler cache: 1 object \([0-9.]+ kB\) restored", again.err), again.err
    assert statistics(again) == {"compilations": 1, "hits": 1}
    assert "saved" not in again.err
    assert digests(folder / "dist") == before


@pytest.mark.proof
def test_a_store_that_fails_fails_no_build(tmp_path: Path, store: dict[str, str]) -> None:
    wrong = {**store, "BAKERY_CACHE_KEY": uuid.uuid4().hex, stores.PASSWORD: "wrong"}
    done = bakery(project(tmp_path / "project"), "wheel", environment=wrong)
    assert f"the compiler cache was not restored: {store['BAKERY_COMPILER_CACHE']}" in done.err
    assert "WRONGPASS" in done.err or "HTTP 403 Forbidden" in done.err
    assert "saved" not in done.err
    assert len(done.wheels) == 1


@pytest.mark.proof
def test_a_store_that_never_ends_holds_no_build(tmp_path: Path, debian: str) -> None:
    """Something came now and then, so no limit of silence helped: the build never began.

    `tests/contract/test_stores.py` has many such servers, without a build.
    """
    with serving("slow continues") as (port, _):
        here = {"BAKERY_COMPILER_CACHE": f"http://127.0.0.1:{port}/objects", "BAKERY_CACHE_KEY": uuid.uuid4().hex}
        done = bakery(project(tmp_path / "project"), "wheel", environment=here)
    assert "the compiler cache was not restored: " in done.err
    assert "it takes longer than 20 s" in done.err
    assert len(done.wheels) == 1


@pytest.mark.proof
@pytest.mark.skipif(os.geteuid() != 0, reason="a private engine needs root")
def test_another_engine_compiles_nothing_again(tmp_path: Path, store: dict[str, str], other: EngineNode) -> None:
    files = 20
    sources = [f"src/part{number}.cpp" for number in range(files - 1)]
    folder, here = project(tmp_path / "project"), {**store, "BAKERY_CACHE_KEY": uuid.uuid4().hex}
    for path in sources:
        (folder / path).write_text(
            f'#include <string>\nstd::string {Path(path).stem}() {{ return "{uuid.uuid4()}"; }}\n'
        )
    setup = folder / "setup.py"
    setup.write_text(setup.read_text().replace("['src/core.cpp']", repr(["src/core.cpp", *sources])))
    assert statistics(bakery(folder, "wheel", environment=here)) == {"compilations": files, "hits": 0}
    moved = shutil.copytree(folder, tmp_path / "moved", ignore=shutil.ignore_patterns("dist", ".bakery"))
    there = bakery(moved, "wheel", environment={**other.reaching(), **here})
    assert any("[compile " in step for step in there.ran())
    assert statistics(there) == {"compilations": files, "hits": files}
    assert digests(moved / "dist") == digests(folder / "dist")
