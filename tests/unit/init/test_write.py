"""Drafts become TOML of at most 20 lines."""

from __future__ import annotations

import tomllib

import pytest

from bakery.init.write import MOST_LINES, Draft, recipe_text, toml_value


@pytest.mark.parametrize("value", ["a", 'q"\\\n\t\x7f', "ü😀", True, ["a", "b"], {"a b": "c", "d": ["e"]}, [], {}])
def test_values_are_read_back(value: object) -> None:
    assert tomllib.loads(f"key = {toml_value(value)}") == {"key": value}


def draft(*paths: str, optional: tuple[str, ...] = ()) -> Draft:
    made = Draft(title="C")
    for path in paths:
        made.set(path, "x", "guess: here", optional=path in optional)
    return made


def test_the_layout_depends_on_the_number_of_keys() -> None:
    short = recipe_text(draft("name", "builder.base", "test.imports"))
    assert "\n\n[builder]\n" in short
    many = [f"builder.k{number}" for number in range(12)]
    dense = recipe_text(draft("name", *many, "wheel.abi3", "test.imports"))
    assert "\n\n" not in dense
    assert "[builder]" in dense
    dotted = recipe_text(draft("name", *many, "matrix.python", "variables.A", "wheel.abi3", "test.imports"))
    assert "\nbuilder.k0 = " in dotted
    assert "[" not in dotted
    assert tomllib.loads(dotted)["builder"]["k11"] == "x"
    assert max(text.count("\n") for text in (short, dense, dotted)) <= MOST_LINES


def test_optional_keys_go_first() -> None:
    made = draft("name", *(f"builder.k{number}" for number in range(18)), "test.imports", optional=("test.imports",))
    text = recipe_text(made)
    assert text.count("\n") == MOST_LINES
    assert [line.what for line in made.rest] == ["test.imports (guess: here)"]


def test_tables_of_pyproject_have_a_prefix() -> None:
    text = recipe_text(draft("name", "builder.base"), prefix="tool.wheel-bakery")
    assert tomllib.loads(text) == {"tool": {"wheel-bakery": {"name": "x", "builder": {"base": "x"}}}}
    many = draft("name", *(f"builder.k{number}" for number in range(14)), "matrix.python", "wheel.abi3", "test.imports")
    assert tomllib.loads(recipe_text(many, prefix="tool.wheel-bakery"))["tool"]["wheel-bakery"]["wheel"] == {
        "abi3": "x"
    }


def test_comments_are_one_line() -> None:
    made = Draft(title="C")
    made.set("name", "x", "a\nb\x1b[31m" + "c" * 500)
    assert recipe_text(made).count("\n") == 2
    assert max(map(len, recipe_text(made).splitlines())) <= 130


def test_merging_keeps_both_reasons() -> None:
    made = Draft()
    made.extend("builder.requirements", ["a"], "one")
    made.extend("builder.requirements", ["a", "b"], "two")
    made.extend("builder.environment", {"A": "1"}, "")
    made.extend("builder.environment", {"A": "2", "B": "3"}, "two")
    assert made.entries["builder.requirements"].value == ["a", "b"]
    assert made.entries["builder.requirements"].reason == "one; two"
    assert made.entries["builder.environment"].value == {"A": "1", "B": "3"}
    assert made.entries["builder.environment"].reason == "two"
