"""The cells of a pull request: every pair of values is covered, by few cells, always the same."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import plans
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bakery import Builder, Matrix, Recipe, Wheel
from bakery.core.errors import PlanError
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.plan.pull_request import covering, for_pull_request
from bakery.recipe.models import Ci


def cell(values: tuple[int, ...]) -> Cell:
    return Cell("-".join(map(str, values)), {f"axis{at}": str(value) for at, value in enumerate(values)}, {})


@given(st.sets(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=64))
def test_every_pair_that_occurs_is_covered(combined: set[tuple[int, int, int]]) -> None:
    cells = [cell(values) for values in sorted(combined)]
    chosen = covering(cells)
    assert pairs(chosen) == pairs(cells)
    assert [one for one in cells if one in chosen] == chosen


def pairs(cells: list[Cell]) -> set[tuple[tuple[str, str], ...]]:
    return {pair for one in cells for pair in combinations(sorted(one.axes.items()), 2)}


def planned(how: object, *, abi3: str | None = None) -> Plan:
    recipe = Recipe(
        name="demo",
        builder=Builder(base="manylinux_2_28", environment={"FLAVOUR": "${FLAVOUR}"}),  # type: ignore[arg-type]
        platforms=("linux/amd64", "linux/arm64", "windows/amd64"),
        matrix=Matrix(python=("3.11", "3.13", "3.14"), axes={"flavour": ("a", "b", "c", "d")}),
        wheel=Wheel(abi3=abi3),
        ci=Ci(pull_request=how),  # type: ignore[arg-type]
    )
    return plans.planned(recipe, Path("/nowhere"))


def ids(plan: Plan) -> list[str]:
    return [cell.id for cell in (*plan.cells, *plan.cibuildwheel_cells)]


def test_cover_takes_as_few_cells_as_the_two_longest_axes_have_pairs() -> None:
    whole = planned("cover")
    few = for_pull_request(whole)
    assert len(ids(whole)) == 36
    assert len(ids(few)) == 12
    assert {cell.platform for cell in (*few.cells, *few.cibuildwheel_cells)} == {
        "linux/amd64",
        "linux/arm64",
        "windows/amd64",
    }


@pytest.mark.parametrize(
    ("how", "expected"),
    [("all", 36), ("first", 3), (["cp313-*"], 12), (["cp313-*", "!*-win_*"], 8), (["*win_amd64"], 12)],
)
def test_which_cells_are_taken(how: object, expected: int) -> None:
    assert len(ids(for_pull_request(planned(how)))) == expected


def test_a_cell_comes_with_the_one_that_builds_its_wheel() -> None:
    few = for_pull_request(planned(["cp313-*-linux_x86_64"], abi3="3.11"))
    assert {cell.built_by for cell in few.cells} <= set(ids(few))


@pytest.mark.parametrize("text", ["17 3 * * *", "*/15 0-6/2 1,15 * 1-5", "59 23 31 12 6"])
def test_schedules(text: str) -> None:
    assert Ci(schedule=text).schedule == text


@pytest.mark.parametrize(
    "text",
    ["", "nightly", "* * * *", "60 3 * * *", "0 24 * * *", "0 3 0 * *", "0 3 * 13 *", "0 3 * * 5-1", "0 3 * * */0"],
)
def test_schedules_that_github_refuses(text: str) -> None:
    with pytest.raises(ValidationError, match="expected five fields"):
        Ci(schedule=text)


def test_globs_that_match_nothing_are_refused_when_the_recipe_is_checked() -> None:
    with pytest.raises(PlanError, match=r"ci.pull-request: .*no cell matches cp27-\*"):
        planned(["cp27-*"])
