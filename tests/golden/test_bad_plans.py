"""Every recipe in bad_plans.toml is well formed and has no plan, with exactly the text beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tables import GoldenRow, rows

from bakery.core.errors import PlanError
from bakery.recipe.load import load
from bakery.resolve.plan import resolve

TABLE = Path(__file__).with_name("bad_plans.toml")
ROWS = rows(TABLE)


@pytest.mark.parametrize("name", ROWS)
def test_bad_plan(name: str, tmp_path: Path, golden_row: GoldenRow) -> None:
    (tmp_path / "bakery.toml").write_text(ROWS[name]["recipe"])
    loaded = load(None, tmp_path)[0]
    with pytest.raises(PlanError) as caught:
        resolve(loaded)
    error = caught.value
    text = [f"{error.title} (exit {error.exit_code}): {error.message}", *error.details, f"→ {error.hint}"]
    golden_row(TABLE, name, "\n".join(text) + "\n")
