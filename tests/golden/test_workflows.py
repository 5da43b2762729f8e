"""The workflows of all shipped recipes: whole files, valid by the published schema, clean for zizmor."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bakery.emit.files import generate
from bakery.errors import PlanError
from bakery.facts import action
from bakery.load import from_python, load, shipped
from bakery.models import Ci, Matrix, Recipe
from bakery.resolve.lower import resolve

HERE = Path(__file__).parent / "workflows"
GOLDEN = sorted(HERE.glob("*.yml"))
Golden = Callable[[Path, str], None]

# The version stands still here, so that a release changes no golden file.
PLAIN = Ci(install="wheel-bakery==1.0")
VARIANTS = {
    "ujson-release": ("ujson", Ci(install="wheel-bakery==1.0", publish="pypi", pages=True)),
    "jaxmg-index": ("jaxmg", Ci(install="wheel-bakery==1.0", pages=True, attest=False, cache="none")),
    "sageattention-own": (
        "sageattention",
        Ci(
            branches=("main", "release/*"),
            tags=("v[0-9]*",),
            runners={"linux/amd64": "big-machine"},
            timeout=600,
            install="wheel-bakery @ git+https://example.com/bakery@v1",
            publish="test",
            publish_url="https://test.pypi.org/legacy/",
            pages=True,
        ),
    ),
}


def made(recipe: str, ci: Ci) -> str:
    (item,) = load(recipe, HERE.parent)
    plan = resolve(replace(item, recipe=item.recipe.model_copy(update={"ci": ci})))
    return generate(plan)[f".github/workflows/bakery-{recipe}.yml"]


WHEELS = sorted(name for name in shipped() if not name.startswith("iree-"))
"""Recipes whose result is a wheel."""


@pytest.mark.parametrize("recipe", WHEELS)
def test_workflow_of_a_shipped_recipe(golden: Golden, recipe: str) -> None:
    golden(HERE / f"{recipe}.yml", made(recipe, PLAIN))


@pytest.mark.parametrize("name", VARIANTS)
def test_workflow_that_publishes(golden: Golden, name: str) -> None:
    golden(HERE / f"{name}.yml", made(*VARIANTS[name]))


def test_no_golden_workflow_is_left_over() -> None:
    assert {path.stem for path in GOLDEN} == {*WHEELS, *VARIANTS}


def tool(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    program = Path(sysconfig.get_path("scripts")) / name
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def test_all_are_valid_by_the_published_schema() -> None:
    done = tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, GOLDEN))
    assert done.returncode == 0, done.stdout


def test_zizmor_finds_nothing_at_its_default_persona() -> None:
    done = tool("zizmor", "--offline", "--no-progress", *map(str, GOLDEN))
    assert (done.returncode, "No findings to report" in done.stdout + done.stderr) == (0, True), done.stdout


def test_zizmor_would_find_an_action_without_a_hash(tmp_path: Path) -> None:
    text = GOLDEN[0].read_text()
    (tmp_path / "bad.yml").write_text(text.replace(f"@{action('actions/checkout').commit}", "@v7"))
    assert tool("zizmor", "--offline", "--no-progress", str(tmp_path / "bad.yml")).returncode != 0


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_no_job_has_a_right_that_it_does_not_need(path: Path) -> None:
    document = YAML(typ="safe").load(path.read_text())
    assert document["permissions"] == {}
    rights = {name: job["permissions"] for name, job in document["jobs"].items()}
    known = {
        "bake": {"contents": "read"},
        "wheels": {"contents": "read"},
        "attest": {"attestations": "write", "id-token": "write"},
        "publish": {"id-token": "write"},
        "pages": {"pages": "write", "id-token": "write"},
    }
    assert rights == {name: known[name] for name in rights}
    # Who may publish runs nothing of the project.
    for name in ("attest", "publish", "pages"):
        steps = document["jobs"].get(name, {"steps": []})["steps"]
        assert not any(step.get("uses", "").startswith("actions/checkout@") for step in steps)


def test_300_cells_are_a_workflow_of_at_most_256_jobs() -> None:
    recipe = Recipe(
        name="many",
        platforms=("linux/amd64", "linux/arm64"),
        matrix=Matrix(python=("3.11", "3.13"), axes={"flavour": tuple(f"v{n}" for n in range(75))}),
        builder={"environment": {"FLAVOUR": "${FLAVOUR}"}},  # type: ignore[arg-type]
        ci=PLAIN,
    )
    plan = resolve(from_python(recipe, HERE))
    document = YAML(typ="safe").load(generate(plan)[plan.workflow])
    jobs = document["jobs"]["bake"]["strategy"]["matrix"]["include"]
    assert len(plan.cells) == 300
    assert len(jobs) <= 256
    assert sorted(cell for job in jobs for cell in job["cells"].split()) == sorted(cell.id for cell in plan.cells)
    assert {(job["runner"], job["cells"].split()[0].rsplit("-")[-1]) for job in jobs} == {
        ("ubuntu-24.04", "linux_x86_64"),
        ("ubuntu-24.04-arm", "linux_aarch64"),
    }


def test_wheels_of_local_versions_are_refused_for_a_public_index() -> None:
    with pytest.raises(PlanError, match="every wheel has a local version"):
        made("jaxmg", Ci(publish="pypi"))


def test_a_workspace_gives_its_recipes_a_workflow(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "bakery.toml").write_text('name = "own"\n[ci]\ntimeout = 60\n')
    (tmp_path / "bakery.toml").write_text('[workspace]\nrecipes = ["own", "ujson"]\n[workspace.ci]\npages = true\n')
    plans = {item.recipe.name: resolve(item) for item in load(None, tmp_path)}
    assert plans["own"].ci is not None
    assert plans["own"].ci.timeout == 60
    assert not plans["own"].ci.pages
    assert plans["ujson"].ci is not None
    assert plans["ujson"].ci.pages
    assert plans["ujson"].workflow in generate(plans["ujson"])


SECRETS = """\
name = "told"
[secrets.hf-token]
env = "HF_TOKEN"
steps = ["compile"]
[secrets.license]
command = ["pass", "show", "license"]
steps = ["compile"]
[ci]
install = "wheel-bakery==1.0"
"""


def test_what_a_recipe_asks_for_stands_in_the_workflow(tmp_path: Path) -> None:
    (tmp_path / "bakery.toml").write_text(SECRETS)
    (item,) = load(None, tmp_path)
    plan = resolve(item)
    assert plan.ci is not None
    text = generate(plan)[plan.workflow]
    (step,) = (
        step for step in YAML(typ="safe").load(text)["jobs"]["bake"]["steps"] if step["name"] == "Bake, audit and test"
    )
    assert step["env"]["HF_TOKEN"] == "${{ secrets.HF_TOKEN }}"
    assert step["run"].endswith(" --allow secret.command=license")
    (tmp_path / "told.yml").write_text(text)
    assert tool("zizmor", "--offline", "--no-progress", str(tmp_path / "told.yml")).returncode == 0
