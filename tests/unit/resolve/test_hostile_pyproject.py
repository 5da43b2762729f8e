"""A pyproject.toml that only nests, or has numbers or keys without end, is as one that says nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bakery.engine.index_credentials import of_cargo
from bakery.recipe.toml_file import table
from bakery.resolve.changed_cells import _without_recipe
from bakery.resolve.rules.project import _dependencies
from bakery.resolve.rules.source import _named

TEXTS = {
    "lists": "x = " + "[" * 100_000 + "]" * 100_000,
    "tables": "x = " + "{a=" * 50_000 + "1" + "}" * 50_000,
    "number": "x = " + "1" * 100_000,
    "key": "a." * 100_000 + "b = 1",
    "keys": "\n".join(f"k{number} = 1" for number in range(50_000)),
    "names": "[" + "a." * 100_000 + "b]",
    "broken": "x = [",
}


@pytest.mark.parametrize("name", TEXTS)
def test_it_says_nothing(tmp_path: Path, name: str) -> None:
    """The first three ended in an internal error, the next took minutes."""
    text = TEXTS[name]
    (tmp_path / "pyproject.toml").write_text(text)
    began = time.process_time()
    with pytest.raises(ValueError, match=r"."):
        table(text)
    assert _dependencies(tmp_path, {}) is None
    assert list(_named("pyproject.toml", text)) == []
    assert _without_recipe(text) is None
    assert of_cargo(tmp_path / "pyproject.toml") == text.encode()
    assert time.process_time() - began < 5
