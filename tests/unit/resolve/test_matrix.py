"""Axes to cells, and cells to ids."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakery.core.errors import PlanError
from bakery.resolve.matrix import LONGEST, combinations, identifiers

AXES = {"python": ("3.11", "3.13"), "cuda": ("12.8.1", "13.0.3"), "platform": ("linux/amd64",)}


def ids(axes: dict[str, tuple[str, ...]]) -> list[str]:
    return identifiers(combinations(axes, (), ()))


def test_product_in_order() -> None:
    cells = combinations(AXES, (), ())
    assert [(cell["python"], cell["cuda"]) for cell in cells] == list(itertools.product(AXES["python"], AXES["cuda"]))


def test_exclude_takes_globs_and_all_of_an_entry() -> None:
    cells = combinations(AXES, [{"python": "3.13", "cuda": "12.*"}], ())
    assert identifiers(cells) == ["cp311-cu128", "cp311-cu130", "cp313-cu130"]


def test_include_fills_up_with_first_values_and_adds_no_cell_twice() -> None:
    cells = combinations(AXES, (), [{"python": "3.14"}, {"python": "3.11", "cuda": "12.8.1"}])
    assert cells[4:] == [{"python": "3.14", "cuda": "12.8.1", "platform": "linux/amd64"}]


def test_include_may_add_what_exclude_took() -> None:
    assert identifiers(combinations(AXES, [{"cuda": "*"}], [{"python": "3.13"}])) == ["cp313"]


def test_nothing_left() -> None:
    with pytest.raises(PlanError, match="no cell left"):
        combinations(AXES, [{"python": "3.*"}], ())


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"python": "3"}, "not a Python version"),
        ({"python": "3.11 "}, "not a Python version"),
        ({"platform": "linux/riscv64"}, "not a platform"),
        ({"cuda": "12\n"}, "control characters"),
    ],
)
def test_values_that_no_model_sees(extra: dict[str, str], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        combinations(AXES, (), [extra])


@pytest.mark.parametrize(
    ("axes", "wanted"),
    [
        ({"python": ("3.13t",), "platform": ("linux/amd64",)}, ["cp313t"]),
        ({"python": ("3.9",), "platform": ("linux/amd64", "linux/arm64")}, ["cp39-linux_x86_64", "cp39-linux_aarch64"]),
        ({"python": ("3.9",), "cuda": ("12.8.0", "12.8.1")}, ["cp39-cu1280", "cp39-cu1281"]),
        ({"python": ("3.9",), "cuda": ("12.8.0", "13.0.3")}, ["cp39-cu128", "cp39-cu130"]),
        ({"python": ("3.9",), "build-type": ("Release", "a/b")}, ["cp39-build_typeRelease", "cp39-build_typea_b"]),
        ({"python": ("3.9",), "mode": ("", "x²")}, ["cp39-modex", "cp39-modex"]),
        ({"python": ("3.9",), "mode": ("²", "1.²")}, ["cp39-modex", "cp39-mode1"]),
    ],
)
def test_ids(axes: dict[str, tuple[str, ...]], wanted: list[str]) -> None:
    if len(set(wanted)) < len(wanted):
        with pytest.raises(PlanError, match="same id"):
            ids(axes)
    else:
        assert ids(axes) == wanted


def test_collisions_are_named() -> None:
    with pytest.raises(PlanError, match=r"cp39-modea_b") as caught:
        ids({"python": ("3.9",), "mode": ("a b", "a-b")})
    assert "letters and digits" in caught.value.hint


def test_an_id_fits_into_names() -> None:
    ids({"python": ("3.9",), "m": ("a" * (LONGEST - 6), "b")})
    with pytest.raises(PlanError, match="121 characters"):
        ids({"python": ("3.9",), "m": ("a" * (LONGEST - 5), "b")})


lines = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=20)
axes_of_anything = st.fixed_dictionaries(
    {"python": st.lists(st.sampled_from(["3.9", "3.11", "3.13", "3.13t"]), min_size=1, unique=True).map(tuple)},
    optional={name: st.lists(lines, min_size=1, max_size=4, unique=True).map(tuple) for name in ("mode", "cuda")},
)


@given(axes_of_anything)
def test_ids_are_names_and_distinct(axes: dict[str, tuple[str, ...]]) -> None:
    cells = combinations(axes, (), ())
    try:
        found = identifiers(cells)
    except PlanError:
        return
    assert len(set(found)) == len(cells) == len(list(itertools.product(*axes.values())))
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in found)


@given(
    axes_of_anything, st.lists(st.dictionaries(st.sampled_from(["python"]), st.sampled_from(["3.1*", "*t", "[3].9"])))
)
def test_exclude_only_takes_away(axes: dict[str, tuple[str, ...]], exclude: list[dict[str, str]]) -> None:
    everything = combinations(axes, (), ())
    try:
        left = combinations(axes, exclude, ())
    except PlanError:
        return
    assert all(cell in everything for cell in left)
    assert sorted(map(str, combinations(axes, exclude, everything))) == sorted(map(str, everything))


def test_a_matrix_is_measured_before_it_is_made() -> None:
    axes = {f"a{number}": tuple("0123456789") for number in range(12)}
    with pytest.raises(PlanError, match=r"has 1,000,000,000,000 combinations, and the limit is 200,000"):
        combinations(axes, (), ())
    wide = {"a": tuple(map(str, range(1000)))}
    with pytest.raises(PlanError, match=r"4,001,000 comparisons, and the limit is 3,000,000"):
        combinations(wide, [{"a": "x"}] * 4000, ())
    with pytest.raises(PlanError, match="the limit is 200,000"):
        combinations({"a": ("1",)}, (), [{"a": "2"}] * 200_000)
    # What was planned before still is.
    large = {"a": tuple(map(str, range(27))), "b": tuple(map(str, range(61))), "c": tuple(map(str, range(61)))}
    assert len(combinations(large, [{"a": "1", "b": "2*", "c": "?"}], ())) == 100_467 - 110
