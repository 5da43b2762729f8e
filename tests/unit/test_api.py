"""The library: a recipe in Python means what the same recipe in TOML means."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT, blocks
from typer.testing import CliRunner

import bakery
from bakery.cli.app import app
from bakery.core.errors import PlanError, RecipeError, UsageError
from bakery.emit.files import generate
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
    planned = bakery.open(tmp_path, environ={}).recipe(RECIPE).plan()
    written, made = resolve(loaded), planned.details
    assert (made.cells, made.stages, made.variables) == (written.cells, written.stages, written.variables)
    files = planned.files()
    assert {"dockerfiles/bin/system/net", "dockerfiles/bin/packages/packages/__main__.py"} <= set(files)
    assert {path for path in files if not path.startswith("dockerfiles/bin/")} == {
        "bake/demo.hcl",
        "dockerfiles/demo.Dockerfile",
        "dockerfiles/demo.Dockerfile.dockerignore",
    }


def test_sets_and_the_environment_reach_the_plan(tmp_path: Path) -> None:
    project = bakery.open(tmp_path, environ={"BAKERY_CUDA_VERSION": "12.8.0"})
    made = project.recipe(RECIPE).plan(PYTHON_VERSION="3.13")
    assert [cell.id for cell in made.cells] == ["cp313"]
    assert made.variables["CUDA_VERSION"] == "12.8.0"


def test_contradictions_are_found(tmp_path: Path) -> None:
    with pytest.raises(RecipeError):
        bakery.open(tmp_path).recipe(bakery.Recipe(name="demo", test=bakery.Test(command="echo ${NOWHERE}")))


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bread'"):
        _ = bakery.bread  # type: ignore[attr-defined]


def test_a_loaded_recipe_has_the_commands_plan(tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text(TOML)
    (loaded,) = load(None, tmp_path)
    recipe = bakery.open(tmp_path, environ={}).recipe()
    plan = recipe.plan({"*.args.PYTHON_VERSION": "3.13"}, CUDA_VERSION="12.8.0")
    assert plan.root == tmp_path
    assert [cell.id for cell in plan.cells] == ["cp313"]
    assert plan.variables["CUDA_VERSION"] == "12.8.0"
    unset = recipe.plan()
    assert unset.details == resolve(loaded)
    assert unset.files() == generate(resolve(loaded))


def test_files_are_written_once(tmp_path: Path) -> None:
    plan = bakery.open(tmp_path, environ={}).recipe(RECIPE).plan()
    assert set(plan.write()) == set(plan.files())
    assert plan.write() == []
    assert (tmp_path / "bake/demo.hcl").read_text() == plan.files()["bake/demo.hcl"]


def test_files_are_those_that_generate_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of a repository, whose workflow is at the top, and which git describes from there."""
    here = tmp_path / "sub" / "project"
    here.mkdir(parents=True)
    (here / "bakery.toml").write_text(TOML + "[ci]\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    monkeypatch.chdir(here)
    assert CliRunner().invoke(app, ["generate"]).exit_code == 0
    plan = bakery.open(".", environ={}).recipe().plan(dated=False)
    texts = plan.files()
    (workflow,) = (path for path in texts if ".github" in path)
    assert workflow == "../../.github/workflows/bakery-demo.sub.project.yml"
    assert texts == {path: (here / path).read_text() for path in texts}
    assert plan.write() == []
    for path in (workflow, "bake/demo.hcl"):
        (here / path).unlink()
    assert plan.write() == ["bake/demo.hcl", workflow]
    assert (here / workflow).is_file()


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"group": ("wheel",)}, "unknown option group; did you mean groups?", "options: groups, only"),
        ({"max_parallel": 2}, "did you mean parallel?", "cell_timeout_s"),
        ({"timeout": 2}, "unknown option timeout", "cell_timeout_s"),
        ({"upgrade": ["a"]}, "unknown option upgrade", ""),
        ({"groups": "full"}, "groups is a text: 'full'", "write groups=['full']"),
        ({"output": "dist"}, "output is a text: 'dist'", "write output=Path('dist')"),
    ],
)
def test_options_are_those_of_the_library(options: dict[str, Any], said: str, hint: str, tmp_path: Path) -> None:
    plan = bakery.open(tmp_path, environ={"PATH": ""}).recipe(RECIPE).plan()
    with pytest.raises(UsageError) as caught:
        plan.bake(**options)
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_a_text_is_no_list_of_what_to_upgrade(tmp_path: Path) -> None:
    plan = bakery.open(tmp_path, environ={"PATH": ""}).recipe(RECIPE).plan()
    with pytest.raises(UsageError, match="upgrade is a text"):
        plan.lock(upgrade="torch")


def test_a_changed_recipe_is_planned_as_changed(tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text(TOML)
    recipe = bakery.open(tmp_path, environ={}).recipe()
    changed = recipe.changed(matrix=bakery.Matrix(python=("3.13",)))
    assert [cell.id for cell in changed.plan().cells] == ["cp313"]
    assert len(recipe.plan().cells) == 2
    assert recipe.changed().recipe.model_fields_set == recipe.recipe.model_fields_set
    assert recipe.changed(test={"imports": ["a"]}).recipe.test == bakery.Test(imports=("a",))
    with pytest.raises(bakery.RecipeError):
        recipe.changed(test=bakery.Test(command="echo ${NOWHERE}"))
    for fields, said in (
        ({"tst": bakery.Test()}, "tst: unknown key; did you mean 'test'?"),
        ({"matrix": "x"}, "matrix: expected a table, found text 'x'"),
        ({"platforms": "linux/amd64"}, "platforms: expected a list of texts"),
    ):
        with pytest.raises(RecipeError, match=r"1 problem in Recipe\(name='demo'\)") as caught:
            recipe.changed(**fields)
        assert said in caught.value.details[0]


def test_the_environment_counts_unless_another_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKERY_CUDA_VERSION", "12.8.0")
    assert bakery.open(tmp_path).recipe(RECIPE).plan().variables["CUDA_VERSION"] == "12.8.0"
    assert bakery.open(tmp_path, environ={}).recipe(RECIPE).plan().variables["CUDA_VERSION"] == "13.0.2"


def test_what_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has 3 recipes: cuda, cpp, ujson"):
        bakery.open(ROOT).recipe()
    assert [item.recipe.name for item in bakery.open(ROOT).recipes()] == ["cuda", "cpp", "ujson"]
    with pytest.raises(RecipeError, match="no recipe 'nowhere'"):
        bakery.open(tmp_path).recipe("nowhere")
    (tmp_path / "bakery.toml").write_text(TOML)
    with pytest.raises(UsageError, match="cannot understand --set"):
        bakery.open(tmp_path).recipe().plan(cuda="1")


def test_the_library_refuses_what_the_command_refuses(tmp_path: Path) -> None:
    """No engine is there, and none is looked for; rules about the recipe and about its source."""
    recipe = bakery.open(tmp_path, environ={"PATH": ""}).recipe(RECIPE)
    plan = recipe.changed(variables={"CUDA_VERSION": bakery.Variable(default="13.0.0")}).plan()
    assert {"cuda-release-broken", "project-file"} <= {finding.rule.id for finding in plan.check()}
    for act in (plan.bake, plan.lock):
        with pytest.raises(PlanError, match="recipe demo breaks 2 rules") as caught:
            act()
        assert "explain" in caught.value.hint
    assert not list(tmp_path.iterdir())


def test_what_the_options_are_called_is_what_they_are() -> None:
    assert {"groups", "on_event", "ignore_rules", "no_cache"} <= set(bakery.BakeOptions.__annotations__)


def test_the_page_of_the_library_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    cells = [block for block in blocks("reference/library.md", "python") if ".bake(" not in block]
    assert len(cells) == 6
    for cell in cells:
        exec(compile(cell, "library.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == ["['cp311', 'cp313']", "12.8.0", "2"]
    assert printed[-1].startswith("2 ")


def test_every_name_of_the_library_is_there() -> None:
    assert [name for name in bakery.__all__ if not hasattr(bakery, name)] == []
