"""Whole generated files: those of the repository's recipes, and of small recipes that vary what a recipe can."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import hcl2
import pytest

from bakery.emit.files import generate
from bakery.recipe.load import Loaded, load
from bakery.resolve.plan import resolve
from bakery.toolchains import programs as scripts
from bakery.toolchains.program_mounts import CONTEXT_FOLDER

ROOT = Path(__file__).resolve().parents[2]
RECIPES = Path(__file__).parent / "recipes"
WORKSPACE = load(None, ROOT)


IMAGES = [item for name in ("iree-cpu", "iree-cuda") for item in load(name, ROOT)]


@pytest.mark.parametrize("item", [*WORKSPACE, *IMAGES], ids=lambda item: item.recipe.name)
def test_committed_files_are_what_the_recipes_say(golden: Callable[[Path, str], None], item: Loaded) -> None:
    for path, text in generate(resolve(item)).items():
        golden(ROOT / path, text)


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_files_of_a_recipe(golden: Callable[[Path, str], None], recipe: Path) -> None:
    (item,) = load(recipe.name, RECIPES)
    # Programs are the same for all recipes.
    texts = {path: text for path, text in generate(resolve(item)).items() if not path.startswith(CONTEXT_FOLDER)}
    configurations = "".join(text for path, text in texts.items() if path.endswith(".toml"))
    for path in set(re.findall(r"cibuildwheel/[\w.-]+", configurations)):
        assert texts.pop(path) == scripts.text(Path(path).name)
    assert len({Path(path).name for path in texts}) == len(texts)
    for path, text in texts.items():
        golden(RECIPES / recipe.stem / Path(path).name, text)


def test_no_golden_file_is_left_over() -> None:
    folders = {path.name for path in RECIPES.iterdir() if path.is_dir()}
    assert folders == {path.stem for path in RECIPES.glob("*.toml")}


def test_the_same_plan_gives_the_same_text() -> None:
    (item, *_) = WORKSPACE
    assert generate(resolve(item)) == generate(resolve(item))


@pytest.mark.parametrize("path", sorted((ROOT / "bake").glob("*.hcl")), ids=lambda path: path.stem)
def test_another_reader_of_hcl_finds_what_the_plan_has(path: Path) -> None:
    (item,) = load(path.stem, ROOT)
    plan = resolve(item)
    document = hcl2.loads(path.read_text())
    found = {json.loads(name): block for entry in document["variable"] for name, block in entry.items()}
    assert {name: json.loads(block["default"]) for name, block in found.items()} == plan.values()
    targets = [json.loads(name) for entry in document["target"] for name in entry]
    assert targets == ["_common", *(kind.value for kind in plan.kinds)]
    assert [json.loads(cell["id"]) for cell in document["cells"]] == [cell.id for cell in plan.cells]


def test_every_committed_program_is_used() -> None:
    folder = ROOT / CONTEXT_FOLDER
    written = {path for item in [*WORKSPACE, *IMAGES] for path in generate(resolve(item))}
    assert {path.relative_to(ROOT).as_posix() for path in folder.rglob("*") if path.is_file()} <= written
