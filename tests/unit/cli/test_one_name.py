"""Recipes of one command that build wheels of one name are named before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakery.cli.runs import one_name
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.runs.run_options import Options


@pytest.mark.parametrize(
    ("more", "is_said"),
    [
        ("", True),
        ('[builder]\nenvironment = { X = "1" }\n', True),
        ('[wheel]\nnaming = { local = "gpu" }\n', False),
        ('[wheel]\nalso-named = [{ local = "gpu" }]\n', True),
        ('[output]\ndirectory = "other"\n', False),
        ('[matrix]\npython = ["3.13"]\n', False),
    ],
)
def test_two_recipes(tmp_path: Path, more: str, is_said: bool) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    matrix = "" if "matrix" in more else '[matrix]\npython = ["3.11"]\n'
    (tmp_path / "cpu.toml").write_text('name = "cpu"\n[matrix]\npython = ["3.11"]\n')
    (tmp_path / "gpu.toml").write_text(f'name = "gpu"\n{matrix}{more}')
    plans = [(tmp_path, resolve(load(f"./{name}.toml", tmp_path)[0])) for name in ("cpu", "gpu")]
    said = one_name(plans, Options(("wheel",)))
    assert [text.partition(" build")[0] for text in said] == (["recipes cpu and gpu"] if is_said else [])
    assert one_name(plans[:1], Options(("wheel",))) == []
