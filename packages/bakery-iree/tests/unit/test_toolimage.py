"""The image with IREE's tools: the hashes of its packages that ship with bakery."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakery.core.target_kinds import Kind
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import parse_set_options
from bakery_iree.tool_image import hashes, image_name


@pytest.mark.parametrize("recipe", ["iree-cpu", "iree-cuda"])
def test_the_hashes_are_of_what_the_recipe_asks_for(recipe: str, tmp_path: Path) -> None:
    (loaded,) = load(recipe, tmp_path)
    plan = resolve(loaded)
    targets = [target for target in plan.targets() if target.kind is Kind.IMAGE]
    assert [target.cell.platform for target in targets] == list(loaded.recipe.platforms)
    for target in targets:
        (found,) = hashes(plan, target).values()
        files = found.packages["image"].files
        assert {"iree-base-compiler", "iree-base-runtime"} <= {file.name for file in files.values()}
        assert all(file.sha256 for file in files.values())
        # What differs from machine to machine is left as it is there.
        assert (found.images, found.system, found.suites) == ({}, {}, {})


def test_another_release_has_none_and_is_another_image(tmp_path: Path) -> None:
    (loaded,) = load("iree-cpu", tmp_path)
    plan = resolve(loaded, parse_set_options(["IREE_VERSION=3.12.0"]))
    assert not any(hashes(plan, target) for target in plan.targets() if target.kind is Kind.IMAGE)
    assert image_name("iree-cpu", "3.12.0", "x86_64") != image_name("iree-cpu", "3.13.0", "x86_64")
