"""The library: a recipe in Python means what the same recipe in TOML means."""

from pathlib import Path

import pytest

import bakery
from bakery.core.errors import RecipeError
from bakery.recipe.load import load
from bakery.resolve.plan import resolve

TOML = """
name = "demo"
[variables]
CUDA_VERSION = "13.0.2"
[matrix]
python = ["3.11", "3.13"]
[builder]
toolkit = "cuda"
[test]
imports = ["demo"]
"""

RECIPE = bakery.Recipe(
    name="demo",
    variables={"CUDA_VERSION": bakery.Variable(default="13.0.2")},
    matrix=bakery.Matrix(python=("3.11", "3.13")),
    builder=bakery.Builder(toolkit="cuda"),
    test=bakery.Test(imports=("demo",)),
)


def test_python_and_toml_give_the_same_plan(tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text(TOML)
    (loaded,) = load(None, tmp_path)
    written, made = resolve(loaded), bakery.plan_recipe(RECIPE, root=tmp_path)
    assert (made.cells, made.stages, made.variables) == (written.cells, written.stages, written.variables)
    files = bakery.generate_files(made)
    assert {"dockerfiles/bin/net", "dockerfiles/bin/packages/__main__.py"} <= set(files)
    assert {path for path in files if not path.startswith("dockerfiles/bin/")} == {
        "bake/demo.hcl",
        "dockerfiles/demo.Dockerfile",
        "dockerfiles/demo.Dockerfile.dockerignore",
    }


def test_sets_and_the_environment_reach_the_plan(tmp_path: Path) -> None:
    made = bakery.plan_recipe(
        RECIPE, root=tmp_path, sets=["PYTHON_VERSION=3.13"], environ={"BAKERY_CUDA_VERSION": "12.8.0"}
    )
    assert [cell.id for cell in made.cells] == ["cp313"]
    assert made.values()["CUDA_VERSION"] == "12.8.0"


def test_contradictions_are_found(tmp_path: Path) -> None:
    with pytest.raises(RecipeError):
        bakery.plan_recipe(bakery.Recipe(name="demo", test=bakery.Test(command="echo ${NOWHERE}")), root=tmp_path)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bread'"):
        _ = bakery.bread  # type: ignore[attr-defined]
