"""Compiler caches in a store: what one machine compiled, another one takes; and no step knows the store."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import stores
from command import Done, bakery, digests
from projects import SOURCE, extension

pytestmark = pytest.mark.engine

RECIPE = 'name = "tiny"\n[matrix]\npython = ["3.11"]\n'


@pytest.fixture(scope="module", params=["redis", pytest.param("s3", marks=pytest.mark.proof)])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Give the environment of a store, and of machines that share it."""
    kind = {"redis": stores.redis, "s3": stores.s3}[request.param]
    with kind(tmp_path_factory.mktemp("store")) as environment:
        yield environment


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
    assert re.search(r"compiler cache: 2 objects \([0-9.]+ kB\) saved", first.err), first.err
    before = digests(folder / "dist")
    changed(folder)
    stores.empty_compiler_cache(here, engine_environment, tmp_path / "second")
    again = bakery(folder, "wheel", environment=reads)
    assert re.search(r"compiler cache: 2 objects \([0-9.]+ kB\) restored", again.err), again.err
    assert statistics(again) == {"compilations": 1, "hits": 1}
    assert "saved" not in again.err
    assert digests(folder / "dist") == before


def test_a_store_that_fails_fails_no_build(tmp_path: Path, store: dict[str, str]) -> None:
    wrong = {**store, "BAKERY_CACHE_KEY": uuid.uuid4().hex, stores.PASSWORD: "wrong"}
    done = bakery(project(tmp_path / "project"), "wheel", environment=wrong)
    assert f"the compiler cache was not restored: {store['BAKERY_COMPILER_CACHE']}" in done.err
    assert "WRONGPASS" in done.err or "HTTP 403 Forbidden" in done.err
    assert "saved" not in done.err
    assert len(done.wheels) == 1
