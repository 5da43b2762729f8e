"""Whole generated files: those of the repository's recipes, and of small recipes that vary what a recipe can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bakery.emit.files import generate
from bakery.load import Loaded, load
from bakery.resolve.lower import resolve

ROOT = Path(__file__).resolve().parents[2]
RECIPES = Path(__file__).parent / "recipes"
WORKSPACE = load(None, ROOT)


@pytest.mark.parametrize("item", WORKSPACE, ids=lambda item: item.recipe.name)
def test_committed_files_are_what_the_recipes_say(golden: Callable[[Path, str], None], item: Loaded) -> None:
    for path, text in generate(resolve(item)).items():
        golden(ROOT / path, text)


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_files_of_a_recipe(golden: Callable[[Path, str], None], recipe: Path) -> None:
    (item,) = load(recipe.name, RECIPES)
    texts = generate(resolve(item))
    assert len({Path(path).name for path in texts}) == len(texts)
    for path, text in texts.items():
        golden(RECIPES / recipe.stem / Path(path).name, text)


def test_no_golden_file_is_left_over() -> None:
    folders = {path.name for path in RECIPES.iterdir() if path.is_dir()}
    assert folders == {path.stem for path in RECIPES.glob("*.toml")}


def test_the_same_plan_gives_the_same_text() -> None:
    (item, *_) = WORKSPACE
    assert generate(resolve(item)) == generate(resolve(item))
