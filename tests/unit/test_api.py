"""The library: a recipe in Python means what the same recipe in TOML means."""

from pathlib import Path

import pytest
from pages import ROOT, blocks

import bakery
from bakery.core.errors import RecipeError, UsageError
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


def test_a_loaded_recipe_has_the_commands_plan(tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text(TOML)
    (loaded,) = load(None, tmp_path)
    plan = bakery.Recipe.load(tmp_path).plan(
        set={"CUDA_VERSION": "12.8.0", "*.args.PYTHON_VERSION": "3.13"}, environ={}
    )
    assert plan.root == tmp_path
    assert [cell.id for cell in plan.cells] == ["cp313"]
    assert plan.variables["CUDA_VERSION"] == "12.8.0"
    unset = bakery.Recipe.load(root=tmp_path).plan(environ={})
    assert unset.values == resolve(loaded)
    assert unset.files() == bakery.generate_files(resolve(loaded))


def test_a_changed_copy_is_planned_as_changed(tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text(TOML)
    recipe = bakery.Recipe.load(tmp_path)
    changed = recipe.model_copy(update={"matrix": bakery.Matrix(python=("3.13",))})
    assert [cell.id for cell in changed.plan(environ={}).cells] == ["cp313"]
    assert len(recipe.plan(environ={}).cells) == 2
    broken = recipe.model_copy(update={"test": bakery.Test(command="echo ${NOWHERE}")})
    with pytest.raises(RecipeError):
        broken.plan(environ={})


def test_the_environment_counts_unless_another_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKERY_CUDA_VERSION", "12.8.0")
    assert bakery.Recipe.model_validate(RECIPE.model_dump()).plan(root=tmp_path).variables["CUDA_VERSION"] == "12.8.0"
    made = bakery.Recipe.model_validate(RECIPE.model_dump()).plan(root=tmp_path, environ={})
    assert made.variables["CUDA_VERSION"] == "13.0.2"


def test_what_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names 3 recipes: cuda, cpp, ujson"):
        bakery.Recipe.load(ROOT)
    with pytest.raises(RecipeError, match="no recipe 'nowhere'"):
        bakery.Recipe.load("nowhere", root=tmp_path)
    (tmp_path / "bakery.toml").write_text(TOML)
    with pytest.raises(UsageError, match="was loaded from"):
        bakery.Recipe.load(tmp_path).plan(root=ROOT)
    with pytest.raises(UsageError, match="cannot understand --set"):
        bakery.Recipe.load(tmp_path).plan(set={"cuda": "1"})


def test_the_page_of_the_library_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    cells = [block for block in blocks("reference/library.md", "python") if ".bake(" not in block]
    assert len(cells) == 4
    for cell in cells:
        exec(compile(cell, "library.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == ["['cp311', 'cp313']", "12.8.0", "2"]
    assert printed[-1].startswith("2 ")


def test_every_name_of_the_library_is_there() -> None:
    assert [name for name in bakery.__all__ if not hasattr(bakery, name)] == []
