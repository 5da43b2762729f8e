"""Cells that are up to date: nothing is baked, and no engine is asked; what changed is baked, and only that."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import Done, bakery, digests, finish, repeated, shell, start, states
from projects import SOURCE, extension, pure
from runs import runs_of

from bakery.engine.cache_scope import KEY_VARIABLE

pytestmark = pytest.mark.engine

RECIPE = 'name = "tiny"\n[matrix]\npython = ["3.11", "3.13"]\n'


@pytest.fixture
def nowhere(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine whose engine is gone, with a docker that leaves a trace of each call."""
    programs, trace = tmp_path / "programs", tmp_path / "asked"
    programs.mkdir()
    docker = programs / "docker"
    docker.write_text(f'#!/bin/sh\necho "$@" >> {trace}\nexit 1\n')
    docker.chmod(0o755)
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
        "BAKERY_ENGINE_DIR": str(tmp_path / "no-engine"),
    }


def results(done: Done) -> dict[str, object]:
    return {name: target["result"] for name, target in done.results().items()}


def test_what_is_up_to_date_is_baked_no_more(tmp_path: Path, nowhere: dict[str, str]) -> None:
    folder = extension(tmp_path / "project", RECIPE, SOURCE)
    first = bakery(folder, "wheel", "--if-changed")
    assert set(results(first).values()) == {"done"}
    before = states(folder / "dist")

    again = bakery(folder, "wheel", "--if-changed", environment=nowhere)
    assert results(again) == {"wheel-cp311": "kept", "wheel-cp313": "kept"}
    assert again.err == f"tiny: 2 cells are up to date, 2 wheels in {folder}/dist; --rebuild bakes anyway\n"
    assert again.wheels == first.wheels
    assert not (tmp_path / "asked").exists()
    assert [path.name for path in again.runs[-1].iterdir() if path.name != ".lock"] == ["report.json"]
    assert states(folder / "dist") == before
    # Without the engine, nothing else can be baked.
    assert not bakery(folder, "wheel", "--rebuild", code=6, environment=nowhere).wheels

    known, wheel = digests(folder / "dist"), sorted((folder / "dist").glob("*.whl"))[0]
    wheel.write_bytes(b"damaged")
    assert results(bakery(folder, "wheel", "--if-changed")) == {"wheel-cp311": "done", "wheel-cp313": "kept"}
    assert digests(folder / "dist") == known

    def rebuilt() -> list[str]:
        done = bakery(folder, "wheel", "--rebuild")
        assert set(results(done).values()) == {"done"}
        return done.ran()

    assert repeated(rebuilt) == set()


@pytest.mark.proof
def test_cells_that_are_cached_are_one_bake(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", RECIPE, SOURCE)
    first = bakery(folder, "full")
    clients = [path.name for path in (first.runs[-1] / "metadata").iterdir()]
    assert len(clients) == 2
    known = digests(folder / "dist")

    def without_wheels() -> list[str]:
        shutil.rmtree(folder / "dist")
        again = bakery(folder, "full", "--if-changed")
        assert set(results(again).values()) == {"done"}
        assert digests(folder / "dist") == known
        ran = again.ran()
        if not ran:
            assert len(list((again.runs[-1] / "metadata").iterdir())) == 1
            assert "cached" in again.err
        return ran

    assert repeated(without_wheels) == set()

    # With empty cache mounts, which have another name, the compile is not cached: then each cell is baked by itself.
    rebuilt = bakery(folder, "full", environment={KEY_VARIABLE: uuid.uuid4().hex})
    assert set(results(rebuilt).values()) == {"done"}
    assert {target["tries"] for target in rebuilt.results().values()} == {1}
    assert digests(folder / "dist") == known
    assert len(list((rebuilt.runs[-1] / "metadata").iterdir())) == 2
    assert any("compile" in step for step in rebuilt.ran())


@pytest.mark.proof
def test_a_tag_that_moves_is_noticed(
    tmp_path: Path, manylinux_image: str, engine_environment: Mapping[str, str]
) -> None:
    tag = f"bakery-test/moving:{os.getpid()}"
    shell(engine_environment, "docker", "tag", manylinux_image, tag)
    recipe = RECIPE.replace(', "3.13"', "") + f'[builder]\nbase = {{ image = "{tag}" }}\n'
    folder = extension(tmp_path / "project", recipe, SOURCE)
    # What the environment says of buildx's metadata does not count: the digest of the base is in it.
    quiet = {"BUILDX_METADATA_PROVENANCE": "disabled"}
    try:
        assert results(bakery(folder, "wheel", "--if-changed", environment=quiet)) == {"wheel-cp311": "done"}
        again = bakery(folder, "wheel", "--if-changed")
        assert results(again) == {"wheel-cp311": "kept"}
        assert not list(again.runs[-1].glob("logs/*"))
        # This one is an index of several manifests: the image, and its provenance.
        (tmp_path / "Dockerfile").write_text(f"FROM {tag}\nLABEL moved=yes\n")
        shell(engine_environment, "docker", "build", "--tag", tag, str(tmp_path))
        assert results(bakery(folder, "wheel", "--if-changed")) == {"wheel-cp311": "done"}
        assert results(bakery(folder, "wheel", "--if-changed")) == {"wheel-cp311": "kept"}
    finally:
        shell(engine_environment, "docker", "rmi", "--force", tag)


@pytest.mark.proof
def test_a_file_that_changes_during_a_bake_is_not_taken_for_built(tmp_path: Path) -> None:
    folder = extension(tmp_path / "project", RECIPE.replace('"3.11", ', ""), SOURCE)
    bakery(folder, "wheel")
    source = next(folder.rglob("*.cpp"))
    text = source.read_text()
    source.write_text(text.replace("\n", "\n\n", 1))
    began = time.monotonic()
    child = start(folder, "wheel", "--if-changed")
    while not list(runs_of(folder).glob(f"*-{child.pid}*/logs/*.log")):
        assert child.poll() is None
        time.sleep(0.05)
    # Which of the two the engine was sent, nobody knows.
    source.write_text(text)
    assert results(finish(child, folder, began)) == {"wheel-cp313": "done"}
    source.write_text(text.replace("\n", "\n\n", 1))
    assert results(bakery(folder, "wheel", "--if-changed")) == {"wheel-cp313": "done"}
    assert results(bakery(folder, "wheel", "--if-changed")) == {"wheel-cp313": "kept"}


@pytest.mark.proof
def test_a_wheel_that_an_earlier_run_left_is_named(tmp_path: Path) -> None:
    folder = pure(tmp_path / "project", 'name = "demo"\n[wheel]\nrepair = false\n')
    (old,) = bakery(folder, "wheel").wheels
    backend = folder / "backend.py"
    text = backend.read_text().replace("demo-1.0", "demo-1.1").replace("demo\\nVersion: 1.0", "demo\\nVersion: 1.1")
    backend.write_text(text)
    done = bakery(folder, "wheel")
    (new,) = done.wheels
    assert (old.name, new.name) == ("demo-1.0-py3-none-any.whl", "demo-1.1-py3-none-any.whl")
    said = f"{old} is an earlier wheel of cp311"
    assert said in " ".join(done.err.split())
    assert said in json.loads((done.runs[-1] / "report.json").read_text())["warnings"]
    old.unlink()
    assert "earlier wheel" not in bakery(folder, "wheel").err
