"""The generated schema and reference: fresh, and of one mind with the models."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
import recipe_page

from bakery.cli import json_schema
from bakery.recipe import files, load, type_names
from bakery.recipe.models import Recipe
from bakery.recipe.toml_file import parse
from bakery.resolve.defaults import DEFAULTS

ROOT = Path(__file__).parents[3]
BAD = ROOT / "tests/golden/bad_recipes"
Golden = Callable[[Path, str], None]

SHORT_FORMS = """\
name = "a"
source = "git+https://example.com/a.git@v1"
[variables]
A = "1"
B = { default = "1", pattern = "[0-9]" }
[matrix]
python = ["3.11", "3.13t"]
cuda = ["12.8.0"]
exclude = [{ python = "3.11", platform = "linux/arm64" }]
[[matrix.overrides]]
where = {}
variables = { A = "2" }
[builder]
base = "debian"
[wheel]
repair = false
config-settings = { "cmake.build-type" = "Release" }
[cache]
backend = "gha"
"""

LONG_FORMS = """\
name = "a"
source = { path = "." }
[matrix.axes]
cuda = ["12.8.0"]
[builder.base]
image = "quay.io/pypa/manylinux_2_28_x86_64"
[wheel.repair]
exclude = ["libcuda.so.*"]
"""

SHIPPED = [file.read_text(encoding="utf-8") for file in files.shipped().values()]
EXAMPLES = [file.read_text(encoding="utf-8") for file in sorted((ROOT / "examples").glob("*/bakery.toml"))]
VALID = [recipe_page.EXAMPLE, SHORT_FORMS, LONG_FORMS, '[workspace]\nrecipes = ["a"]\n', *SHIPPED, *EXAMPLES]

# What a schema can see: keys, types and choices; not what two keys say of each other.
REFUSED = [*BAD.glob("key-[!p]*.toml"), *BAD.glob("type-[!idnt]*.toml"), BAD / "type-imports-text.toml"]
REFUSED += [BAD / f"value-{name}.toml" for name in ("frontend", "cache-mode", "python-tag", "axis-name", "import")]


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema.schema("recipe"))


@pytest.mark.parametrize("path", json_schema.schema_texts())
def test_schemas_are_fresh(path: str, golden: Golden) -> None:
    golden(ROOT / path, json_schema.schema_texts()[path])


def test_reference_is_fresh(golden: Golden) -> None:
    golden(ROOT / recipe_page.PATH, recipe_page.reference_text())


@pytest.mark.parametrize("text", json_schema.schema_texts().values(), ids=json_schema.schema_texts())
def test_schemas_are_schemas(text: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.parametrize("text", VALID)
def test_valid(text: str) -> None:
    validator().validate(tomllib.loads(text))


@pytest.mark.parametrize("text", [recipe_page.EXAMPLE, SHORT_FORMS, LONG_FORMS])
def test_valid_recipes_load(text: str) -> None:
    assert load._problems(parse(text.encode(), "x").data) == []


@pytest.mark.parametrize("file", REFUSED, ids=lambda file: file.stem)
def test_refused(file: Path) -> None:
    assert not validator().is_valid(tomllib.loads(file.read_text(encoding="utf-8")))


def test_pyproject_files_are_checked_in_their_table() -> None:
    check = jsonschema.Draft202012Validator(json_schema.schema("pyproject"))
    check.validate(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    for text in VALID:
        check.validate({"project": {"name": "a"}, "tool": {"bakery": tomllib.loads(text), "other": 1}})
    for file in REFUSED:
        assert not check.is_valid({"tool": {"bakery": tomllib.loads(file.read_text(encoding="utf-8"))}}), file.stem


def test_every_default_is_that_of_a_key() -> None:
    for path in DEFAULTS:
        assert type_names.at(Recipe, path.split(".")) is not None, path


def test_every_key_is_described() -> None:
    text = recipe_page.reference_text()
    assert "|  |\n" not in text
    assert "``" not in text.replace("```", "")
