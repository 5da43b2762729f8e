"""Commands about one cell: what they say of a name that no recipe bakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakery.cli.recipes import cell_named, resolved
from bakery.core.errors import UsageError

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
