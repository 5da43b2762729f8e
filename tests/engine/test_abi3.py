"""One wheel for several Pythons: built once and tested on each; without a key of the recipe, the same bytes or an error."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from abi3_project import library, project, same, unannounced
from command import Done, bakery, digests

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


@pytest.mark.proof
def test_without_the_key_different_wheels_of_one_name_are_an_error(tmp_path: Path) -> None:
    folder = unannounced(project(tmp_path / "project"))
    key = 'set wheel.abi3 = "3.11"'
    checked = bakery(folder, "check")
    assert key in " ".join(checked.err.split())
    failed = bakery(folder, "full", code=10)
    said = " ".join(failed.err.split())
    assert "2 cells built different files with one name: tiny-1.0-cp311-abi3-manylinux" in said
    assert key in said
    assert not list((folder / "dist").glob("*.whl"))
    # One of them alone, on a fresh checkout: then the other one is the error.
    alone = shutil.copytree(folder, tmp_path / "alone", ignore=shutil.ignore_patterns(".bakery"))
    (wheel,) = bakery(alone, "full", "--only", "cp313", "--if-changed").wheels
    assert "different files with one name" in bakery(alone, "full", "--if-changed", code=11).err
    assert digests(alone / "dist") == {wheel.name: record(wheel)["subject"][0]["digest"]["sha256"]}
    # With the key, all is well.
    recipe = (folder / "bakery.toml").read_text()
    (folder / "bakery.toml").write_text(f'{recipe}[wheel]\nabi3 = "3.11"\n')
    assert [path.name for path in bakery(folder, "full", "--if-changed").wheels] == [wheel.name]
    assert "1 wheel: complete and as planned" in bakery(folder, "verify", "dist").out


def record(wheel: Path) -> dict[str, Any]:
    """Return the provenance beside a wheel."""
    found: dict[str, Any] = json.loads((wheel.parent / ".provenance" / f"{wheel.name}.provenance.json").read_text())
    return found


def stamps(done: Done, *cells: str) -> list[tuple[str, str]]:
    """Return what the last test of each cell printed: its Python, and the stamp of the wheel."""
    return [re.findall(r"(?m)^(\d+) (stamp \S+)$", done.log(f"test-{cell}"))[-1] for cell in cells]


@pytest.mark.proof
def test_the_same_bytes_are_one_wheel_of_all_cells(tmp_path: Path) -> None:
    folder = same(tmp_path / "project")
    done = bakery(folder, "full", "--if-changed")
    (wheel,) = done.wheels
    assert wheel.name.startswith("tiny-1.0-py3-none-manylinux")
    assert f"one wheel for cp311, cp313: {wheel.name}" in done.err
    assert {done.results()[f"test-{cell}"]["result"] for cell in ("cp311", "cp313")} == {"done"}
    definition = record(wheel)["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["cell"] == "cp311"
    assert definition["internalParameters"]["alsoServes"] == ["cp313"]
    assert "1 wheel: complete and as planned" in bakery(folder, "verify", "dist").out
    assert {row["result"] for row in bakery(folder, "full", "--if-changed").results().values()} == {"kept"}
    # No cell is done without its wheel, whatever part of the matrix a run looks at.
    for words in (("--only", "cp313"), ("--only", "cp311"), ()):
        wheel.unlink()
        assert bakery(folder, "full", "--if-changed", *words).wheels == [wheel]
        assert wheel.exists()


@pytest.mark.proof
@pytest.mark.parametrize("named", ["", '\nalso-named = [{ local = "cpu" }]'])
def test_a_wheel_that_fails_on_one_python_is_not_published(tmp_path: Path, named: str) -> None:
    folder = same(tmp_path / "project", named)
    recipe = (folder / "bakery.toml").read_text()
    test = "import sys; assert sys.version_info < (3, 13)"
    (folder / "bakery.toml").write_text(
        re.sub(r'(?m)^command = "python .*$', f"command = 'python -c \"{test}\"'", recipe)
    )
    failed = bakery(folder, "full", code=7)
    assert not list((folder / "dist").glob("*.whl"))
    assert failed.results()["wheel-cp311"]["reason"] == "cp313 failed, and this wheel is for it, too"
    refused = bakery(folder, "full", "--only", "cp311", "--if-changed", code=8)
    assert "its wheel is for cp313, too, and cp313 failed" in " ".join(refused.err.split())
    assert not list((folder / "dist").glob("*.whl"))
    (folder / "bakery.toml").write_text(recipe)
    assert len(bakery(folder, "full", "--failed").wheels) == (2 if named else 1)


@pytest.mark.proof
def test_a_library_for_every_python(tmp_path: Path) -> None:
    folder = library(tmp_path / "project")
    done = bakery(folder, "full")
    (wheel,) = done.wheels
    assert wheel.name.startswith("tiny-1.0-py3-none-manylinux")
    assert set(done.results()) == {"wheel-cp311", "test-cp311", "test-cp313"}
    # The compilers of the two bases differ, so it is that of the lower Python that both load.
    ((_, first), (_, second)) = stamps(done, "cp311", "cp313")
    assert first == second
    assert bakery(folder, "verify", "dist").code == 0


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
@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ('abi3 = "3.11"', "has ABI tag cp311, expected a stable-ABI wheel"),
        ("py3 = true", "is tagged cp311-cp311, which does not install on Python 3.13"),
    ],
)
def test_a_wheel_for_one_python_only(tmp_path: Path, key: str, reason: str) -> None:
    folder = project(tmp_path / "project", "")
    (folder / "bakery.toml").write_text((folder / "bakery.toml").read_text().replace('abi3 = "3.11"', key))
    said = " ".join(bakery(folder, "wheel", code=8).err.split())
    assert reason in said
    assert re.search("remove (the key|wheel.abi3 from the recipe)", said)
    assert not list((folder / "dist").glob("*.whl"))
