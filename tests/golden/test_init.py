"""The recipe of every small project in helpers/init_projects.py is exactly the text in init/, and what is said beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from file_trees import write_files
from init_projects import PROJECTS, made

from bakery.init.project import candidates
from bakery.init.tree import scan
from bakery.init.write import MOST_LINES

FOLDER = Path(__file__).parent / "init"


@pytest.mark.parametrize("name", PROJECTS)
def test_recipe(name: str, tmp_path: Path, golden: Callable[[Path, str], None]) -> None:
    root = write_files(tmp_path / name, PROJECTS[name])
    assert len(candidates(scan(root))) == 1
    recipe = made(root)
    draft, text = recipe.draft, recipe.text
    assert text.count("\n") <= MOST_LINES
    assert not list(root.rglob("RAN"))
    golden(FOLDER / f"{name}.toml", text)
    said = [*(f"note: {note}" for note in draft.notes), *(f"{what}: {reason}" for what, reason in draft.rest)]
    if said:
        golden(FOLDER / f"{name}.txt", "\n".join(said) + "\n")


def test_every_text_has_its_project() -> None:
    assert sorted({path.stem for path in FOLDER.iterdir()}) == sorted(PROJECTS)
