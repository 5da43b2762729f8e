"""Every recipe in bad_plans/ is well formed and has no plan, with exactly the text beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bakery.core.errors import PlanError
from bakery.recipe.load import load
from bakery.resolve.plan import resolve

FOLDER = Path(__file__).parent / "bad_plans"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))


@pytest.mark.parametrize("name", NAMES)
def test_bad_plan(name: str, tmp_path: Path, golden: Callable[[Path, str], None]) -> None:
    shutil.copy(FOLDER / f"{name}.toml", tmp_path / "bakery.toml")
    loaded = load(None, tmp_path)[0]
    with pytest.raises(PlanError) as caught:
        resolve(loaded)
    error = caught.value
    text = [f"{error.title} (exit {error.exit_code}): {error.message}", *error.details, f"→ {error.hint}"]
    golden(FOLDER / f"{name}.txt", "\n".join(text) + "\n")


def test_every_text_has_its_recipe() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == NAMES
