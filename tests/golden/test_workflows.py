"""The workflows of all shipped recipes: whole files, valid by the published schema, clean for zizmor."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import plans
import pytest
from pages import blocks
from typer.testing import CliRunner
from workflow_judges import STRICT, parsed, schema_errors, zizmor

from bakery import __version__
from bakery.cli.app import app
from bakery.core.errors import DriftError, PlanError, RecipeError
from bakery.emit.files import generate
from bakery.plan.delivery import Repository
from bakery.recipe.files import shipped
from bakery.recipe.load import from_python, load
from bakery.recipe.models import Ci, Matrix, Recipe, Wheel
from bakery.recipe.models.ci import TestPublish
from bakery.resolve.delivery import workflow_settings
from bakery.resolve.plan import resolve
from bakery.toolchains.facts import action
from bakery_iree.emit import module_workflow
from bakery_iree.job.load import load as load_job
from bakery_iree.job.resolve import resolve as resolve_job
from bakery_iree.plan import JobFile
from bakery_iree.tool_image import image_name
from bakery_iree.workspace import job_files as load_jobs

HERE = Path(__file__).parent / "workflows"
ROOT = HERE.parents[2]
GOLDEN = sorted(HERE.glob("*.yml"))
CALLED, ACTION = ROOT / ".github/workflows/wheels.yml", ROOT / "action.yml"
"""What projects use that keep no workflow of their own."""
Golden = Callable[[Path, str], None]

# The version stands still here, so that a release changes no golden file.
PLAIN = Ci(install=("wheel-bakery==1.0",))
VARIANTS = {
    "ujson-release": (
        "ujson",
        Ci(
            install=("wheel-bakery==1.0",),
            publish="pypi",
            test_publish=TestPublish(environment="testpypi", url="https://test.pypi.org/legacy/"),
            github_release=True,
            pages=True,
        ),
    ),
    "jaxmg-index": ("jaxmg", Ci(install=("wheel-bakery==1.0",), pages=True, attest=False, cache="none")),
    "ujson-store": (
        "ujson",
        Ci(install=("wheel-bakery==1.0",), cache="none", compiler_cache="s3://objects/ujson?region=eu-west-1"),
    ),
    "sageattention-own": (
        "sageattention",
        Ci(
            branches=("main", "release/*"),
            tags=("v[0-9]*",),
            runners={"linux/amd64": "big-machine"},
            timeout=600,
            install=("wheel-bakery @ git+https://example.com/bakery@v1",),
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


def test_workflow_with_nights_an_archive_and_the_release_before(golden: Golden) -> None:
    ci = Ci(
        install=("wheel-bakery==1.0",),
        schedule="17 3 * * *",
        nightly=14,
        sdist=True,
        publish="pypi",
        github_release=True,
    )
    recipe = Recipe(name="nightly", matrix=Matrix(python=("3.13",)), wheel=Wheel(max_growth="20 %"), ci=ci)
    plan = resolve(from_python(recipe, HERE))
    golden(HERE / "nightly.yml", generate(plan)[plan.workflow])


BELOW = """\
name = "below"
platforms = ["linux/amd64", "windows/amd64"]
[matrix]
python = ["3.13"]
[test]
gpu = true
command = "python -c pass"
[ci]
install = ["wheel-bakery==1.0"]
gpu-runner = ["gpu-a100", "gpu-h100"]
publish = "pypi"
github-release = true
pages = true
"""


def test_workflow_of_a_project_below_the_top_of_its_repository(golden: Golden, tmp_path: Path) -> None:
    plan = plans.written(tmp_path, BELOW)
    repository = Repository("packages/a b", submodules=True, lfs=True)
    golden(HERE / "below.yml", generate(plan, repository)[repository.named(plan.workflow)])


def job_files(folder: Path) -> list[JobFile]:
    """Return two jobs of a repository: one is measured, and has modules for other targets than the rest."""
    (folder / "models").mkdir(exist_ok=True)
    (folder / "m.mlir").write_text("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }")
    more = {"input": "../m.mlir", "name": "n", "targets": ["cuda:sm_80", "metal"]}
    measured = {"input": "../m.mlir", "benchmark": {"inputs": ["4xf32=1"], "baseline": "speed.json"}}
    first = {"version": 1, "targets": ["cpu:x86-64-v3", "cpu:aarch64"], "modules": [measured, more]}
    second = {"version": 1, "targets": ["vulkan"], "modules": [{"input": "m.mlir"}]}
    found = []
    for name, job in (("models/job.json", first), ("a b.json", second)):
        (folder / name).write_text(json.dumps(job))
        found.append(JobFile(name, resolve_job(load_job(folder / name, name))))
    return found


def image(recipe: str, version: str, machine: str) -> str:
    return f"{recipe}:{version}-{machine}-0123456789ab"


@pytest.mark.parametrize(
    ("name", "ci"), [("jobs", PLAIN), ("jobs-uncached", PLAIN.model_copy(update={"cache": "none"}))]
)
def test_workflow_alone(golden: Golden, tmp_path: Path, name: str, ci: Ci) -> None:
    golden(HERE / f"{name}.yml", module_workflow(job_files(tmp_path), workflow_settings(ci), image))


def test_more_targets_than_github_takes_are_refused(tmp_path: Path) -> None:
    (job, _) = job_files(tmp_path)
    with pytest.raises(PlanError, match="at most 256"):
        module_workflow([job] * 65, workflow_settings(PLAIN), image)


def test_a_workspace_of_jobs_generates_their_workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job_files(tmp_path)
    (tmp_path / "bakery-iree.toml").write_text('jobs = ["models/job.json"]\n[ci]\nbranches = ["trunk"]\n')
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    assert runner.invoke(app, ["generate"]).stdout == "wrote .github/workflows/iree-modules.yml\n"
    (file,) = tmp_path.rglob("*.yml")
    document = parsed(file.read_text())
    # What is not published is not made of releases, which take nothing from caches.
    assert document["on"]["push"] == {"branches": ["trunk"]}
    rows = document["jobs"]["modules"]["strategy"]["matrix"]["include"]
    assert {row["images"] for row in rows if row["name"].startswith("models-job.cpu-x")} == {
        image_name("iree-cpu", "3.13.0", "x86_64")
    }
    assert image_name("iree-cpu", "3.13.0", "x86_64") != image_name("iree-cpu", "3.13.0", "aarch64")
    assert runner.invoke(app, ["generate", "--check"]).exit_code == 0
    # A target more is another workflow.
    (tmp_path / "models/job.json").write_text(
        (tmp_path / "models/job.json").read_text().replace('"metal"', '"metal:ios"')
    )
    assert isinstance(runner.invoke(app, ["generate", "--check"]).exception, DriftError)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('jobs = ["gone.json"]', "jobs[0]: 'gone.json' is not a file in the workspace"),
        ('jobs = ["../job.json"]', "jobs[0]: '../job.json' is not a file in the workspace"),
        ("jobs = []", "jobs: expected at least one entry"),
        ("[ci]", "jobs: missing"),
    ],
)
def test_jobs_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bakery-iree.toml").write_text(f"{text}\n")
    with pytest.raises(RecipeError) as caught:
        load_jobs(tmp_path)
    assert said in caught.value.details[0]


def test_an_image_of_a_workspace_has_no_workflow(tmp_path: Path) -> None:
    assert plans.written(tmp_path, '[workspace]\nrecipes = ["iree-cpu"]\n[workspace.ci]\n').ci is None


@cache
def of(path: Path) -> Any:
    """Return what a workflow that stays as it is says."""
    return parsed(path.read_text())


def test_no_golden_workflow_is_left_over() -> None:
    others = {"below", "jobs", "jobs-uncached", "few-cover", "few-linux", "nightly"}
    assert {path.stem for path in GOLDEN} == {*WHEELS, *VARIANTS, *others}


def test_all_are_valid_by_the_published_schema() -> None:
    assert schema_errors("github-workflows", [*GOLDEN, CALLED]) == []
    assert schema_errors("github-actions", [ACTION]) == []
    # The schema of one is none for the other.
    assert schema_errors("github-workflows", [ACTION])


def test_what_projects_call_installs_this_version() -> None:
    inputs = of(CALLED)["on"]["workflow_call"]["inputs"]
    assert inputs["install"]["default"] == f"wheel-bakery[audit]=={__version__}"
    (image,) = load(None, ROOT / "examples/image")
    assert image.recipe.variables["RELEASE"].default == __version__
    # Each input has a use, and no other is used.
    for file, given in ((CALLED, inputs), (ACTION, of(ACTION)["inputs"])):
        assert set(re.findall(r"\binputs\.([a-z]+)", file.read_text())) == set(given)


@pytest.mark.parametrize("path", [*GOLDEN, CALLED], ids=lambda path: path.stem)
def test_files_of_one_name_come_from_one_artifact(path: Path) -> None:
    """After "Re-run all jobs", an artifact whose name has the attempt is there twice."""
    every = [step.get("with", {}) for job in of(path)["jobs"].values() for step in job["steps"]]
    merged = [step["pattern"] for step in every if "pattern" in step]
    of_attempts = [step["name"] for step in every if "github.run_attempt" in step.get("name", "")]
    assert [name for name in of_attempts for pattern in merged if name.startswith(pattern.rstrip("*"))] == []


def test_what_projects_call_writes_meta_packages_before_it_verifies() -> None:
    runs = [step.get("run", "") for step in of(CALLED)["jobs"]["wheels"]["steps"]]
    (meta,) = (index for index, text in enumerate(runs) if text.startswith("wheel-bakery meta --if-any "))
    assert runs[meta + 1].startswith("wheel-bakery verify ")


def test_callers_of_the_documentation_pass_zizmor(tmp_path: Path) -> None:
    callers = [block for block in blocks("ci.md", "yaml") if "OWNER/wheel-bakery" in block]
    (tmp_path / ".github/workflows").mkdir(parents=True)
    for number, text in enumerate(callers):
        assert len(text.splitlines()) <= 15
        (tmp_path / f".github/workflows/{number}.yml").write_text(text)
    assert (len(callers), zizmor(tmp_path)) == (2, "")


def test_zizmor_finds_nothing_at_its_strictest_persona() -> None:
    assert zizmor(*STRICT, *GOLDEN, CALLED, ACTION) == ""


def test_zizmor_would_find_an_action_without_a_hash(tmp_path: Path) -> None:
    text = GOLDEN[0].read_text()
    (tmp_path / "bad.yml").write_text(text.replace(f"@{action('actions/checkout').commit}", "@v7"))
    assert zizmor(tmp_path / "bad.yml")


@pytest.mark.parametrize("path", [*GOLDEN, CALLED], ids=lambda path: path.stem)
def test_no_job_has_a_right_that_it_does_not_need(path: Path) -> None:
    document = of(path)
    assert document["permissions"] == {}
    rights = {name: job["permissions"] for name, job in document["jobs"].items()}
    known = {
        "modules": {"contents": "read"},
        "plan": {"contents": "read"},
        "bake": {"contents": "read"},
        "build": {"contents": "read"},
        "wheels": {"contents": "read"},
        "sdist": {"contents": "read"},
        "gpu-test": {"contents": "read"},
        "attest": {"attestations": "write", "id-token": "write"},
        "test-publish": {"id-token": "write"},
        "publish": {"id-token": "write"},
        "release": {"contents": "write"},
        "nightly": {"contents": "write"},
        "pages": {"pages": "write", "id-token": "write"},
    }
    assert rights == {name: known[name] for name in rights}
    # Who may publish runs nothing of the project.
    for name in ("attest", "test-publish", "publish", "release", "nightly", "pages"):
        steps = document["jobs"].get(name, {"steps": []})["steps"]
        assert not any(step.get("uses", "").startswith("actions/checkout@") for step in steps)


TAG = "github\\.ref_type == 'tag'"
STATE = rf"\$\{{\{{ {TAG} && '/bakery/compiler-cache' \|\| '' \}}\}}"


@pytest.mark.parametrize("path", [*GOLDEN, CALLED], ids=lambda path: path.stem)
def test_no_cache_is_in_the_checkout_and_pull_requests_leave_none(path: Path) -> None:
    steps = [step for job in of(path)["jobs"].values() for step in job["steps"]]
    cached = [step for step in steps if step.get("uses", "").startswith("actions/cache")]
    assert all(step["with"]["path"].startswith("${{ runner.temp }}/") for step in cached)
    # The action without /save or /restore writes whatever asked for it.
    assert {step["uses"].partition("@")[0] for step in cached} <= {"actions/cache/save", "actions/cache/restore"}
    writes = [step["if"].split(" && ") for step in cached if step["uses"].startswith("actions/cache/save@")]
    assert all("github.event_name != 'pull_request'" in conditions for conditions in writes)
    for step in steps:
        environment = step.get("env", {})
        # A release takes nothing that another run made.
        assert environment.get("BAKERY_CACHE", "none") in (
            "none",
            "${{ github.ref_type != 'tag' && 'gha' || 'none' }}",
            "${{ runner.os == 'Linux' && github.ref_type != 'tag' && matrix.cache || 'none' }}",
        )
        if environment.get("BAKERY_CACHE", "none") != "none":
            assert environment["BAKERY_CACHE_READ_ONLY"] == "${{ github.event_name == 'pull_request' }}"
        place = environment.get("BAKERY_COMPILER_CACHE", "")
        if "://" in place:
            # A release has a folder, as below.
            assert re.fullmatch(rf"\$\{{\{{ {TAG} && runner.temp \|\| '[^']+' \}}\}}{STATE}", place)
            assert environment["BAKERY_COMPILER_CACHE_READ_ONLY"] == "${{ github.event_name == 'pull_request' }}"
            # A pull request never has the password that can write.
            assert environment["BAKERY_COMPILER_CACHE_PASSWORD"].startswith(
                "${{ github.event_name != 'pull_request' && "
            )
        elif place:
            # That of a release is in its state, which only attempts of the same run upload and download.
            assert place == "${{ runner.temp }}/${{ github.ref_type == 'tag' && 'bakery/' || '' }}compiler-cache"
            taken = [step["if"] for step in cached if step["with"]["path"] == "${{ runner.temp }}/compiler-cache"]
            assert len(taken) == 2
            assert all("github.ref_type != 'tag'" in condition for condition in taken)


def test_300_cells_are_a_workflow_of_at_most_256_jobs() -> None:
    recipe = Recipe(
        name="many",
        platforms=("linux/amd64", "linux/arm64"),
        matrix=Matrix(python=("3.11", "3.13"), axes={"flavour": tuple(f"v{n}" for n in range(75))}),
        builder={"environment": {"FLAVOUR": "${FLAVOUR}"}},  # type: ignore[arg-type]
        ci=PLAIN,
    )
    plan = resolve(from_python(recipe, HERE))
    document = parsed(generate(plan)[plan.workflow])
    jobs = document["jobs"]["bake"]["strategy"]["matrix"]["include"]
    assert len(plan.cells) == 300
    assert len(jobs) <= 256
    assert sorted(cell for job in jobs for cell in job["cells"].split()) == sorted(cell.id for cell in plan.cells)
    assert {(job["runner"], job["cells"].split()[0].rsplit("-")[-1]) for job in jobs} == {
        ("ubuntu-24.04", "linux_x86_64"),
        ("ubuntu-24.04-arm", "linux_aarch64"),
    }


@pytest.mark.parametrize(("name", "how"), [("few-cover", "cover"), ("few-linux", ("cp313-*-linux_*",))])
def test_a_pull_request_builds_few_cells(golden: Golden, name: str, how: Literal["cover"] | tuple[str, ...]) -> None:
    recipe = Recipe(
        name="few",
        platforms=("linux/amd64", "linux/arm64", "windows/amd64"),
        matrix=Matrix(python=("3.11", "3.13"), axes={"flavour": ("a", "b", "c")}),
        builder={"environment": {"FLAVOUR": "${FLAVOUR}"}},  # type: ignore[arg-type]
        ci=Ci(install=("wheel-bakery==1.0",), pull_request=how, schedule="17 3 * * 1-5"),
    )
    plan = resolve(from_python(recipe, HERE))
    golden(HERE / f"{name}.yml", generate(plan)[plan.workflow])


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
builder.base = { image = "mine.example/base:1" }
[secrets.hf-token]
env = "HF_TOKEN"
steps = ["compile"]
[secrets.license]
command = ["pass", "show", "license"]
steps = ["compile"]
[ci]
install = ["wheel-bakery==1.0"]
"""


def test_what_a_recipe_asks_for_stands_in_the_workflow(tmp_path: Path) -> None:
    plan = plans.written(tmp_path, SECRETS)
    assert plan.ci is not None
    text = generate(plan)[plan.workflow]
    (step,) = (step for step in parsed(text)["jobs"]["bake"]["steps"] if step["name"] == "Bake, audit and test")
    assert step["env"]["HF_TOKEN"] == "${{ secrets.HF_TOKEN }}"
    assert step["run"].endswith(' --allow "$ALLOWED_1" --allow "$ALLOWED_2" --allow "$ALLOWED_3"')
    allowed = [step["env"][f"ALLOWED_{number}"] for number in (1, 2, 3)]
    assert allowed == ["secret.env=HF_TOKEN", "secret.command=license", "image=mine.example/base:1"]
    (tmp_path / "told.yml").write_text(text)
    assert zizmor(tmp_path / "told.yml") == ""
