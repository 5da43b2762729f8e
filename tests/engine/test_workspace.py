"""The repository's own workspace, from recipe to installed wheel."""

from __future__ import annotations

import stat
import sys
import venv
from pathlib import Path

import pytest
from command import ROOT, UNDATED, Done, bakery, shell, states

pytestmark = pytest.mark.engine

RECIPES = {"cuda": "bakery_example_cuda-1.0.0", "cpp": "bakery_example_cpp-1.0.0", "ujson": "ujson-6.1.0"}
"""Recipe → how the names of its wheels begin, in the order of the workspace."""

SAMPLE = {name: prefix for name, prefix in RECIPES.items() if name != "cuda"}

MODULES = {
    "bakery_example_cpp": "bakery_example_cpp.edit_distance('kitten', 'sitting') == 3",
    "ujson": "ujson.loads(ujson.dumps({'a': [1, 2.5, None]})) == {'a': [1, 2.5, None]}",
}

OWN = f"cp{sys.version_info.major}{sys.version_info.minor}"


@pytest.fixture(scope="module", params=[SAMPLE, pytest.param(RECIPES, marks=pytest.mark.proof)], ids=["sample", "all"])
def recipes(request: pytest.FixtureRequest) -> dict[str, str]:
    """Give the recipes that are baked: `make test` does without the one that needs a CUDA toolkit."""
    found: dict[str, str] = request.param
    return found


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory, recipes: dict[str, str]) -> Path:
    """Give the folder that receives the wheels of recipes; a stranger's file is in it."""
    folder = tmp_path_factory.mktemp("-".join(recipes))
    (folder / "README").write_text("mine")
    return folder


@pytest.fixture(scope="module")
def words(recipes: dict[str, str]) -> list[str]:
    """Give the words that name recipes; none for the whole workspace."""
    return [] if recipes == RECIPES else [word for name in recipes for word in ("-r", name)]


Results = list[dict[str, dict[str, object]]]


@pytest.fixture(scope="module")
def baked(output: Path, words: list[str]) -> tuple[Done, Results]:
    """Give what ``wheel-bakery full`` over the workspace came to, and its reports: later runs of other tests prune them."""
    done = bakery(ROOT, "full", *words, *UNDATED, "--output", str(output))
    results = [done.results(number) for number in range(len(done.runs))]
    assert all(Path(str(target["log"])).exists() for found in results for target in found.values())
    return done, results


@pytest.fixture
def full(baked: tuple[Done, Results]) -> Done:
    """Give what ``wheel-bakery full`` over the workspace came to."""
    return baked[0]


def test_wheels_of_all_recipes_and_pythons_arrive(full: Done, output: Path, recipes: dict[str, str]) -> None:
    names = [path.name for path in full.wheels]
    assert sorted(names) == sorted(path.name for path in output.glob("*.whl"))
    for prefix in recipes.values():
        own = [name.removeprefix(f"{prefix}-").split("-")[:2] for name in names if name.startswith(prefix)]
        # The CUDA example has one wheel for all Pythons from 3.12 on.
        newer = ["cp312", "abi3"] if "cuda" in prefix else ["cp313", "cp313"]
        assert own == [["cp311", "cp311"], newer]
    assert all("-manylinux_2_" in name for name in names)
    assert (output / "README").read_text() == "mine"


def test_files_are_readable_by_everybody_and_nothing_else_is_left(full: Done, output: Path) -> None:
    assert {stat.S_IMODE(path.stat().st_mode) for path in full.wheels} == {0o644}
    assert {path.name for path in output.iterdir()} == {"README", ".provenance", *(path.name for path in full.wheels)}


def test_reports_tell_wheels_and_tests_of_each_cell(baked: tuple[Done, Results], recipes: dict[str, str]) -> None:
    for results, prefix in zip(baked[1], recipes.values(), strict=True):
        assert set(results) == {"wheel-cp311", "wheel-cp313", "test-cp311", "test-cp313"}
        assert {target["result"] for target in results.values()} == {"done"}
        for cell in ("cp311", "cp313"):
            target = results[f"wheel-{cell}"]
            (wheel,) = target["wheels"]
            assert Path(wheel["path"]).name.startswith(prefix)
            assert len(wheel["sha256"]) == 64


@pytest.mark.skipif(OWN not in ("cp311", "cp313"), reason="no wheel for the Python of this machine")
def test_wheels_install_and_work_on_this_machine(full: Done, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    wheels = [str(path) for path in full.wheels if f"-{OWN}-" in path.name and "cuda" not in path.name]
    assert len(wheels) == len(MODULES)
    environment = {"PATH": "/usr/bin:/bin"}
    shell(environment, python, "-m", "pip", "install", "--quiet", "--no-index", *wheels)
    for module, claim in MODULES.items():
        shell(environment, python, "-c", f"import {module}; assert {claim}")


def test_audit_of_what_was_published_is_clean(full: Done) -> None:
    done = bakery(ROOT, "audit", *map(str, full.wheels))
    assert "error" not in (done.out + done.err).lower()


def test_second_run_is_cached_and_touches_nothing(
    full: Done, output: Path, words: list[str], recipes: dict[str, str]
) -> None:
    before = states(output)
    again = bakery(ROOT, "full", *words, *UNDATED, "--output", str(output))
    assert states(output) == before
    assert again.wheels == full.wheels
    assert [again.ran(number) for number in range(len(again.runs))] == [[]] * len(recipes)


def test_only_bakes_the_cells_that_were_asked_for(full: Done, tmp_path: Path) -> None:
    done = bakery(ROOT, "wheel", "-r", "ujson", "--only", "cp313*", *UNDATED, "--output", str(tmp_path / "dist"))
    assert [path.name.split("-")[2] for path in done.wheels] == ["cp313"]
    assert done.wheels[0].read_bytes() in {path.read_bytes() for path in full.wheels}


def test_several_targets_at_once(full: Done, tmp_path: Path) -> None:
    done = bakery(ROOT, "bake", "wheel", "test", "-r", "cpp", *UNDATED, "--output", str(tmp_path / "dist"))
    assert set(done.results()) == {"wheel-cp311", "wheel-cp313", "test-cp311", "test-cp313"}
    assert {path.name for path in done.wheels} <= {path.name for path in full.wheels}


def test_test_alone_publishes_nothing(full: Done, output: Path) -> None:
    before = states(output)
    done = bakery(ROOT, "test", "-r", "cpp", *UNDATED, environment={"BAKERY_OUTPUT": str(output)})
    assert {target["result"] for target in done.results().values()} == {"done"}
    assert done.wheels == []
    assert states(output) == before
