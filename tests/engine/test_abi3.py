"""Stable ABI: one wheel for several Pythons, built once and tested on each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from abi3_project import library, project, unannounced
from command import Done, bakery

pytestmark = pytest.mark.engine


@pytest.mark.proof
def test_built_once_and_tested_on_all(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    done = bakery(folder, "full")
    (wheel,) = done.wheels
    assert wheel.name.startswith("tiny-1.0-cp311-abi3-manylinux")
    assert set(done.results()) == {"wheel-cp311", "test-cp311", "test-cp313"}
    said = {name: re.findall(r"(?m)\b(\d+) (stamp \S+)$", done.log(name)) for name in ("test-cp311", "test-cp313")}
    ((old, first),), ((new, second),) = said.values()
    assert (old, new) == ("11", "13")
    assert first == second
    # The other cell's name stands for the wheel that it shares.
    again = bakery(folder, "wheel", "--only", "cp313")
    assert [path.name for path in again.wheels] == [wheel.name]
    assert set(again.results()) == {"wheel-cp311"}


def stamps(done: Done, *cells: str) -> list[tuple[str, str]]:
    """Return what the last test of each cell printed: its Python, and the stamp of the wheel."""
    return [re.findall(r"(?m)^(\d+) (stamp \S+)$", done.log(f"test-{cell}"))[-1] for cell in cells]


def test_one_wheel_without_being_told(tmp_path: Path) -> None:
    # On an empty engine the stages of the base come first: if another build makes them at the same time, BuildKit may run
    # what stands on them again.
    bakery(unannounced(project(tmp_path / "before")), "wheel")
    folder = unannounced(project(tmp_path / "project"))
    done = bakery(folder, "full")
    (wheel,) = done.wheels
    assert wheel.name.startswith("tiny-1.0-cp311-abi3-manylinux")
    assert f"one wheel for cp311, cp313 (abi3): {wheel.name}" in done.err
    ((old, first), (new, second)) = stamps(done, "cp311", "cp313")
    assert (old, new, first) == ("11", "13", second)
    results = done.results()
    assert results["wheel-cp313"]["wheel_of"] == "cp311"
    record = json.loads((folder / "dist/.provenance" / f"{wheel.name}.provenance.json").read_text())
    definition = record["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["cell"] == "cp311"
    assert definition["internalParameters"]["alsoServes"] == ["cp313"]
    assert "1 wheel: complete and as planned" in bakery(folder, "verify", "dist").out
    # The next run knows it: nothing is built for the other Python, and what did not change is cached.
    again = bakery(folder, "full")
    assert again.results()["wheel-cp311"]["wheels"] == results["wheel-cp311"]["wheels"]
    assert again.results()["wheel-cp313"]["steps"] == 0
    assert not [step for step in again.ran() if "with-ccache" in step]
    assert {row["result"] for row in bakery(folder, "full", "--resume").results().values()} == {"kept"}
    other = bakery(folder, "wheel", "--only", "cp313")
    assert (other.wheels, set(other.results())) == (done.wheels, {"wheel-cp311", "wheel-cp313"})


@pytest.mark.proof
def test_a_library_for_every_python(tmp_path: Path) -> None:
    folder = library(tmp_path / "project")
    done = bakery(folder, "full")
    (wheel,) = done.wheels
    assert wheel.name.startswith("tiny-1.0-py3-none-manylinux")
    assert f"one wheel for cp311, cp313 (none): {wheel.name}" in done.err
    # The compilers of the two bases differ, so it is that of the lower Python that both load.
    ((_, first), (_, second)) = stamps(done, "cp311", "cp313")
    assert first == second
    assert bakery(folder, "verify", "dist").code == 0


@pytest.mark.proof
def test_a_shared_wheel_that_fails_on_one_python_is_not_published(tmp_path: Path) -> None:
    folder = unannounced(project(tmp_path / "project"))
    # The wheel says which Python built it. Each Python's own one passes; that of 3.11 fails on 3.13.
    setup = (folder / "setup.py").read_text().replace("import uuid", "import sys")
    (folder / "setup.py").write_text(setup.replace("uuid.uuid4()", "sys.version_info[1]"))
    recipe = (folder / "bakery.toml").read_text()
    test = "import sys, tiny; assert tiny.stamp().endswith(str(sys.version_info[1])), tiny.stamp()"
    (folder / "bakery.toml").write_text(re.sub(r"(?m)^command = .*$", f"command = 'python -c \"{test}\"'", recipe))
    for words in ((), ("--failed",)):
        failed = bakery(folder, "full", *words, code=7)
        assert not list((folder / "dist").glob("*.whl"))
        results = failed.results()
        assert (results["test-cp313"]["result"], results["wheel-cp313"]["wheel_of"]) == ("failed", "cp311")
        assert results["wheel-cp311"]["reason"] == "cp313 failed, and they share a wheel"
    (folder / "bakery.toml").write_text(recipe)
    done = bakery(folder, "full", "--failed")
    assert [wheel.name.partition("-many")[0] for wheel in done.wheels] == ["tiny-1.0-cp311-abi3"]


@pytest.mark.proof
def test_ordinary_wheels_are_not_shared(tmp_path: Path) -> None:
    folder = unannounced(project(tmp_path / "project", ""))
    done = bakery(folder, "full")
    assert sorted(wheel.name.partition("-many")[0] for wheel in done.wheels) == [
        "tiny-1.0-cp311-cp311",
        "tiny-1.0-cp313-cp313",
    ]
    assert "2 wheels: complete and as planned" in bakery(folder, "verify", "dist").out


@pytest.mark.proof
def test_a_wheel_for_one_python_only(tmp_path: Path) -> None:
    done = bakery(project(tmp_path / "project", ""), "wheel", code=8)
    said = " ".join(done.err.split())
    assert "has ABI tag cp311, expected a stable-ABI wheel" in said
    assert "or remove wheel.abi3 from the recipe" in said
    assert not list((tmp_path / "project" / "dist").glob("*.whl"))
