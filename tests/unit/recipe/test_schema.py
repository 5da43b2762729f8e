"""The generated schema and reference: fresh, and of one mind with the models."""

from __future__ import annotations

import fnmatch
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
import re2
import recipe_page
from tables import rows

from bakery.cli import json_schema
from bakery.recipe import files, load
from bakery.recipe.toml_file import parse

ROOT = Path(__file__).parents[3]
BAD = {name: row["recipe"] for name, row in rows(ROOT / "tests/golden/bad_recipes.toml").items() if "recipe" in row}
Golden = Callable[[Path, str], None]

TEXTS = {f"schema/{name}.schema.json": json_schema.schema_text(name) for name in json_schema.names()}

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
REFUSED = [name for glob in ("key-[!p]*", "type-[!idnt]*") for name in fnmatch.filter(BAD, glob)]
REFUSED += [
    "type-imports-text", "value-frontend", "value-cache-mode", "value-python-tag", "value-axis-name", "value-import",
]  # fmt: skip


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema.schema("recipe"))


@pytest.mark.parametrize("path", TEXTS)
def test_schemas_are_fresh(path: str, golden: Golden) -> None:
    golden(ROOT / path, TEXTS[path])


@pytest.mark.parametrize("path", [f"docs/{name}" for name in recipe_page.PAGES])
def test_reference_is_fresh(path: str, golden: Golden) -> None:
    golden(ROOT / path, recipe_page.reference_texts()[path])


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_schemas_are_schemas(text: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


def patterns(node: object) -> Iterator[str]:
    """Yield every regular expression of a schema."""
    if isinstance(node, dict):
        yield from (node["pattern"],) if isinstance(node.get("pattern"), str) else ()
        yield from node.get("patternProperties", ())
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from patterns(item)


PATTERNS = sorted({text for document in TEXTS.values() for text in patterns(json.loads(document))})
ESCAPE = re.compile(r"\\(?:[\^$\\.*+?()\[\]{}|/dDwWsSbBnrtfv-]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})|[^\\]", re.DOTALL)
"""A character of an expression, or an escape that ECMAScript has with the flag ``u``; ``\\-`` in classes only."""


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_mean_the_same_in_every_language(pattern: str) -> None:
    """Validators compile them with Python's ``re``, with ECMAScript's flag ``u`` (ajv, editors), or with Rust's regex."""
    assert re.compile(pattern).groups == re2.compile(pattern).groups
    assert ESCAPE.sub("", pattern) == ""
    assert re.sub(r"\[(?:\\.|[^\]\\])*\]", "", pattern).count("\\-") == 0
    # Rust's regex has operators of sets.
    assert not any(text in pattern for text in ("&&", "--", "~~", "[["))


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ('base = "debain"', False),
        ('base = "image"', False),
        ('base = { provider = "manylinux_2_82" }', False),
        ('base = "manylinux_2_28_cuda12_9"', True),
        ('base = { image = "registry.test:5000/team/debain:1" }', True),
        (f'base = {{ image = "debian@sha256:{"0" * 64}" }}', True),
        ('base = { provider = "image", image = "debian:12" }', True),
        ('toolkit = "cudaa"', False),
        ('toolkit = "cuda"', True),
        ('framework = "pytorch"', False),
        ('framework = "torch"', True),
        ('job-memory = "3.5 GB"', True),
        ('job-memory = "much"', False),
    ],
)
def test_names_that_do_not_exist(text: str, is_valid: bool) -> None:
    assert validator().is_valid(tomllib.loads(f'name = "a"\n[builder]\n{text}\n')) is is_valid


@pytest.mark.parametrize("text", VALID)
def test_valid(text: str) -> None:
    validator().validate(tomllib.loads(text))


@pytest.mark.parametrize("text", [recipe_page.EXAMPLE, SHORT_FORMS, LONG_FORMS])
def test_valid_recipes_load(text: str) -> None:
    assert load._problems(parse(text.encode(), "x").data) == []


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    assert not validator().is_valid(tomllib.loads(BAD[name]))


def test_pyproject_files_are_checked_in_their_table() -> None:
    check = jsonschema.Draft202012Validator(json_schema.schema("pyproject"))
    check.validate(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    for text in VALID:
        check.validate({"project": {"name": "a"}, "tool": {"wheel-bakery": tomllib.loads(text), "other": 1}})
    for name in REFUSED:
        assert not check.is_valid({"tool": {"wheel-bakery": tomllib.loads(BAD[name])}}), name


def test_every_key_is_described() -> None:
    text = "".join(recipe_page.reference_texts().values())
    assert "|  |\n" not in text
    assert "``" not in text.replace("```", "")
