"""Commands about one cell: what they say of a name that no recipe bakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.cli.recipes import cell_named, resolved
from bakery.core.errors import UsageError
from bakery.plan.cells import selects

RECIPE = 'name = "{}"\nplatforms = ["linux/amd64", "macos/arm64"]\n[matrix]\npython = ["3.12"]\n[builder]\nbase = "manylinux_2_28"\n'


@pytest.mark.parametrize(
    ("name", "said", "hint"),
    [
        ("cp312-macosx_arm64", "cell cp312-macosx_arm64 is not baked: cibuildwheel builds it", "its output"),
        ("cp312-macos_arm64", "no recipe has a cell cp312-macos_arm64", "did you mean 'cp312-macosx_arm64'?"),
        ("nothing", "no recipe has a cell nothing", "cells are cp312, cp312-macosx_arm64"),
        ("cp312", "several recipes have a cell cp312: a, b", "choose one with --recipe"),
    ],
)
def test_a_cell_that_is_not_there(tmp_path: Path, name: str, said: str, hint: str) -> None:
    for recipe in "ab":
        (tmp_path / f"{recipe}.toml").write_text(RECIPE.format(recipe))
    names = [str(tmp_path / "a.toml"), str(tmp_path / "b.toml")]
    plans = resolved(names, None, tmp_path, dated=False)
    with pytest.raises(UsageError) as caught:
        cell_named(name, plans)
    assert caught.value.message == said
    assert hint in caught.value.hint
    root, plan, cell = cell_named("cp312", plans[1:])
    assert (root, plan.recipe, cell.id) == (tmp_path, "b", "cp312")


def test_build_arguments_of_several_recipes(tmp_path: Path) -> None:
    for recipe, level in {"a": 'variables.LEVEL = "1"\n', "b": ""}.items():
        (tmp_path / f"{recipe}.toml").write_text(level + RECIPE.format(recipe))
    names = [str(tmp_path / "a.toml"), str(tmp_path / "b.toml")]
    sets = ["*.args.LEVEL=2", "*.args.BUILDKIT_CACHE_MOUNT_NS=x"]
    plans = [plan for _, plan in resolved(names, sets, tmp_path, dated=False)]
    assert [plan.values().get("LEVEL") for plan in plans] == ["2", None]
    assert all(cell.args["BUILDKIT_CACHE_MOUNT_NS"] == "x" for plan in plans for cell in plan.cells)
    with pytest.raises(UsageError, match="no recipe has variable LEVLE"):
        resolved(names, ["*.args.LEVLE=2"], tmp_path, dated=False)


@pytest.mark.parametrize(
    ("globs", "chosen"),
    [
        ([], ["cp311", "cp312", "cp313t"]),
        (["cp31[12]"], ["cp311", "cp312"]),
        (["!cp312"], ["cp311", "cp313t"]),
        (["cp31*", "!*t"], ["cp311", "cp312"]),
        (["wheel-cp311", "!test-*"], ["cp311"]),
        (["!*"], []),
    ],
)
def test_globs_select_cells_and_leave_some_out(globs: list[str], chosen: list[str]) -> None:
    assert [name for name in ("cp311", "cp312", "cp313t") if selects(globs, (name, f"wheel-{name}"))] == chosen


def test_cells_are_left_out_of_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bakery.toml").write_text('name = "demo"\n[matrix]\npython = ["3.11", "3.13"]\n')
    monkeypatch.chdir(tmp_path)

    def cells(*words: str) -> list[str]:
        (plan,) = json.loads(CliRunner().invoke(app, ["plan", "--json", *words]).stdout)["recipes"]
        return [cell["id"] for cell in plan["cells"]]

    assert cells() == ["cp311", "cp313"]
    assert cells("--skip", "*13") == ["cp311"]
    assert cells("--only", "cp*", "--skip", "cp311") == ["cp313"]


def test_check_counts_the_cells_of_cibuildwheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bakery.toml").write_text(RECIPE.format("demo"))
    (tmp_path / "pyproject.toml").write_text("[build-system]\nrequires = []\n")
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["check"])
    assert said.stdout.startswith("demo: ok, 2 cells (1 with cibuildwheel), ")
