"""Whole generated files: those of the repository's recipes, and of small recipes that vary what a recipe can."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache
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
PLAIN = RECIPES / "plain.toml"
VARIED = [path for path in sorted(RECIPES.glob("*.toml")) if path != PLAIN]
Golden = Callable[[Path, str], None]
WORKSPACE = load(None, ROOT)


IMAGES = [item for name in ("iree-cpu", "iree-cuda") for item in load(name, ROOT)]


@pytest.mark.parametrize("item", [*WORKSPACE, *IMAGES], ids=lambda item: item.recipe.name)
def test_committed_files_are_what_the_recipes_say(golden: Golden, item: Loaded) -> None:
    for path, text in generate(resolve(item)).items():
        golden(ROOT / path, text)


@cache
def texts_of(recipe: Path) -> dict[str, str]:
    """Return name → text of each file of a recipe; it is called plain, as the one that all are compared with."""
    (item,) = load(recipe.name, RECIPES)
    item = replace(item, recipe=item.recipe.model_copy(update={"name": PLAIN.stem}), file=PLAIN)
    # Programs are the same for all recipes.
    texts = {path: text for path, text in generate(resolve(item)).items() if not path.startswith(CONTEXT_FOLDER)}
    configurations = "".join(text for path, text in texts.items() if path.endswith(".toml"))
    for path in set(re.findall(r"cibuildwheel/[\w.-]+", configurations)):
        assert texts.pop(path) == scripts.text(Path(path).name)
    assert len({Path(path).name for path in texts}) == len(texts)
    return {Path(path).name: text for path, text in texts.items()}


def difference(before: str, after: str) -> str:
    """Return what changed, each part below the stage or block that it is in: line numbers would change with all above."""
    old, new = before.splitlines(), after.splitlines()
    lines = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(1):
        above = [line for line in old[: group[0][1] + 1] if re.match(r"FROM |[a-z]+ .*[{[]$", line)]
        lines.append(f"@@ {above[-1] if above else 'the top'}")
        for _, old_from, old_to, new_from, new_to in group:
            removed, added = old[old_from:old_to], new[new_from:new_to]
            same = removed == added
            lines += [*(f" {line}" for line in removed if same), *(f"-{line}" for line in removed if not same)]
            lines += [f"+{line}" for line in added if not same]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def test_files_of_a_plain_recipe(golden: Golden) -> None:
    for name, text in texts_of(PLAIN).items():
        golden(RECIPES / PLAIN.stem / name, text)


@pytest.mark.parametrize("recipe", VARIED, ids=lambda path: path.stem)
def test_what_a_recipe_changes(golden: Golden, recipe: Path) -> None:
    plain, texts = texts_of(PLAIN), texts_of(recipe)
    changes = {name: difference(plain.get(name, ""), texts.get(name, "")) for name in {**plain, **texts}}
    golden(recipe.with_suffix(".diff"), "\n".join(f"=== {name}\n{said}" for name, said in changes.items() if said))


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in RECIPES.glob("*.diff")} == {path.stem for path in VARIED}
    assert {path.name for path in (RECIPES / PLAIN.stem).iterdir()} == texts_of(PLAIN).keys()


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
