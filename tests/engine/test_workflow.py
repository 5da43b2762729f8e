"""The generated workflow, every ``run:`` step of it in order: from a checkout to a verified, merged set of wheels."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import threading
import uuid
import venv
from collections.abc import Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from actions import Runner
from command import ROOT, bakery, digests
from compilers import slow_project
from pages import blocks
from projects import SOURCE, extension

pytestmark = pytest.mark.engine

MODULES = ROOT / "packages/bakery-iree/tests/data/mlir"
MEASURE = "Benchmark, and compare with the job's baselines"

RECIPE = """\
name = "tiny"
[matrix]
python = ["3.11", "3.13"]
[builder]
toolkit = "none"
[wheel.naming]
clean = true
[[wheel.also-named]]
local = "own1"
[test]
imports = ["tiny"]
[ci]
cache = "none"
"""
PUBLISH = """\
publish = "pypi"
pages = true
[ci.test-publish]
environment = "testpypi"
url = "https://index.invalid/legacy/"
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, engine_environment: Mapping[str, str]) -> Runner:
    """Give a run of the workflow for a tag."""
    project = extension(tmp_path_factory.mktemp("tiny") / "project", RECIPE + PUBLISH, SOURCE)
    bakery(project, "generate")
    # What the repository has in the place of results is none.
    (project / "dist" / ".provenance").mkdir(parents=True)
    (project / "dist" / ".provenance" / "planted-1.0-py3-none-any.provenance.json").write_text("{}")
    folder = tmp_path_factory.mktemp("actions")
    (folder / "nothing").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder / "nothing")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {**os.environ, **engine_environment, "NO_PROXY": "127.0.0.1"}
    github = {"run_attempt": 1, "event_name": "push", "ref": "refs/tags/v1.0", "ref_type": "tag", "workflow": "wheels"}
    runner = Runner(project, folder, environment, github, f"http://127.0.0.1:{server.server_port}")
    try:
        runner.run((project / ".github/workflows/bakery-tiny.yml").read_text())
    finally:
        server.shutdown()
        server.server_close()
    return runner


def test_every_step_of_every_job_ran_and_passed(release: Runner) -> None:
    assert [(done.step, done.out[-3000:]) for done in release.ran if done.code] == []
    steps = [(done.job, done.step) for done in release.ran]
    assert steps == [
        *[("bake", "Install bakery"), ("bake", "Bake, audit and test")] * 2,
        ("wheels", "Install bakery"),
        ("wheels", "Verify the wheels"),
        ("wheels", "Name the artifact"),
        ("test-publish", "Choose the wheels without a local version"),
        ("publish", "Choose the wheels without a local version"),
        ("pages", "Install bakery"),
        ("pages", "Extend the index"),
    ]


def test_parts_are_merged_into_one_set_and_removed(release: Runner) -> None:
    names = [path.name for path in release.artifacts.iterdir()]
    # The pages of runs are kept for people.
    assert sorted(names) == ["pages-1", "report-cp311", "report-cp313", "wheels-1"]
    wheels = sorted(path.name.rsplit("-", 1)[0] for path in (release.artifacts / "wheels-1").glob("*.whl"))
    # What each was built from came along.
    records = (release.artifacts / "wheels-1" / ".provenance").glob("*.provenance.json")
    assert len(list(records)) == len(wheels)
    assert wheels == [
        f"tiny-1.0{local}-{python}-{python}" for local in ("+own1", "") for python in ("cp311", "cp313")
    ]  # fmt: skip


def test_clean_wheels_are_published_and_local_ones_stand_in_the_index(release: Runner) -> None:
    merged = digests(release.artifacts / "wheels-1")
    published = digests(release.folder / "published")
    indexed = digests(release.artifacts / "pages-1")
    assert published == {name: digest for name, digest in merged.items() if "+" not in name}
    assert digests(release.folder / "published-first") == published
    assert indexed == {name: digest for name, digest in merged.items() if "+" in name}


def test_a_set_that_is_not_whole_is_refused(release: Runner) -> None:
    project, wheels = release.project, release.artifacts / "wheels-1"
    assert "4 wheels" in bakery(project, "verify", str(wheels)).out
    *some, last = sorted(wheels.glob("*.whl"))
    done = bakery(project, "verify", *map(str, some), code=8)
    assert "tiny cp313: a wheel is missing: no local version" in done.err
    done = bakery(project, "verify", "--only", "cp311", str(wheels), code=8)
    assert f"{last.name}: in no plan" in done.err


def caller(number: int) -> str:
    """Return a workflow of docs/ci.md that calls this repository's."""
    text = [block for block in blocks("ci.md", "yaml") if "OWNER/wheel-bakery" in block][number]
    assert len(text.splitlines()) <= 15
    return text


@pytest.mark.proof
def test_a_project_that_calls_the_reusable_workflow(
    tmp_path: Path, engine_environment: Mapping[str, str], release: Runner
) -> None:
    project = extension(tmp_path / "project", RECIPE.partition("[ci]")[0], SOURCE)
    github = {**release.github, "repository": "me/tiny"}
    runner = Runner(project, tmp_path / "actions", {**os.environ, **engine_environment}, github)
    runner.folder.mkdir()
    runner.run(caller(0))
    assert [(done.step, done.out[-3000:]) for done in runner.ran if done.code] == []
    assert [done.job for done in runner.ran if done.step == "Bake, audit and test"] == ["bake", "bake"]
    # The same wheels as those of the generated workflow, and on the public index those without a local version.
    assert digests(runner.artifacts / "wheels") == digests(release.artifacts / "wheels-1")
    assert digests(runner.folder / "published") == digests(release.folder / "published")
    assert runner.used.count("actions/attest-build-provenance") == 1
    (page,) = (runner.artifacts / "wheels.report.tiny.cp311").rglob("report.html")
    assert list((page.parent / "logs").glob("wheel-*.log")), "the page links to logs"
    assert "### tiny: 1 of 1 cells" in (runner.folder / "summary.md").read_text()


@pytest.mark.proof
def test_a_project_that_uses_the_action(tmp_path: Path, engine_environment: Mapping[str, str], release: Runner) -> None:
    project = extension(tmp_path / "project", RECIPE.partition("[ci]")[0], SOURCE)
    # Bakery is what the action installs, and nothing that these tests have.
    venv.create(tmp_path / "venv", with_pip=True)
    runner = Runner(project, tmp_path / "actions", {**os.environ, **engine_environment}, dict(release.github))
    runner.python = str(tmp_path / "venv/bin/python")
    runner.folder.mkdir()
    runner.run(caller(1))
    assert [(done.step, done.out[-3000:]) for done in runner.ran if done.code] == []
    assert digests(runner.artifacts / "wheels") == digests(release.artifacts / "wheels-1")


@pytest.mark.proof
@pytest.mark.parametrize("called", [False, True])
def test_a_pull_request_builds_the_cells_of_its_key(
    tmp_path: Path, engine_environment: Mapping[str, str], *, called: bool
) -> None:
    project = extension(tmp_path / "project", RECIPE + 'pull-request = ["cp313"]\n', SOURCE)
    bakery(project, "generate")
    github = {"run_attempt": 1, "event_name": "pull_request", "ref": "refs/pull/7/merge", "ref_type": "branch"}
    runner = Runner(project, tmp_path / "actions", {**os.environ, **engine_environment}, github)
    runner.folder.mkdir()
    runner.run(caller(0) if called else (project / ".github/workflows/bakery-tiny.yml").read_text())
    assert [(done.step, done.out[-3000:]) for done in runner.ran if done.code] == []
    assert [done.job for done in runner.ran if done.step == "Bake, audit and test"] == ["bake"]
    (verify,) = [done for done in runner.ran if done.step == "Verify the wheels"]
    assert "2 wheels: complete and as planned" in verify.out
    assert {name.split("-")[2] for name in digests(runner.artifacts / ("wheels" if called else "wheels-1"))} == {
        "cp313"
    }
    assert not (runner.folder / "published").exists()


JOBS = """\
[tool.bakery-iree]
jobs = ["models/job.json"]
[tool.bakery-iree.ci]
"""


@pytest.mark.proof
def test_modules_of_jobs_are_compiled_validated_and_measured(
    tmp_path: Path, engine_environment: Mapping[str, str]
) -> None:
    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    (project / "pyproject.toml").write_text(JOBS)
    (project / "models" / "matmul.mlir").write_bytes((MODULES / "matmul.mlir").read_bytes())
    ones = ["64x64xf32=1"] * 3
    benchmark: dict[str, object] = {"inputs": ones, "repetitions": 20}
    module = {
        "input": "matmul.mlir",
        "checks": [{"inputs": ones, "expected": ["64x64xf32=65"]}],
        "benchmark": benchmark,
    }
    job = {"version": 1, "targets": ["cpu:x86-64-v3", "metal"], "modules": [module]}
    (project / "models" / "job.json").write_text(json.dumps(job))
    bakery(project, "generate")
    workflow = (project / ".github/workflows/iree-modules.yml").read_text()
    github = {"run_attempt": 1, "event_name": "push", "ref": "refs/heads/main", "workflow": "modules"}
    runner = Runner(project, tmp_path / "actions", {**os.environ, **engine_environment}, github)
    runner.folder.mkdir()
    runner.run(workflow)
    assert [(done.step, done.out[-3000:]) for done in runner.ran if done.code] == []
    assert "Load the images" not in {done.step for done in runner.ran[:5]}
    cpu, metal = "models-job.cpu-x86-64-v3", "models-job.metal"
    assert {path.name for path in runner.artifacts.iterdir()} == {
        *(f"{kind}-{name}" for kind in ("modules", "figures") for name in (cpu, metal))
    }
    record = json.loads((runner.artifacts / f"modules-{cpu}" / "matmul.cpu-x86-64-v3.json").read_text())
    assert record["validation"]["status"] == "passed"
    assert (runner.artifacts / f"modules-{metal}" / "matmul.metal.vmfb").stat().st_size

    # The second run takes the images of the first; a module that became slower ends it, and its figures are kept.
    figures = json.loads((runner.artifacts / f"figures-{cpu}" / "figures.json").read_text())
    figures["benchmarks"][0]["record"]["p50"] /= 1000
    (project / "models" / "speed.json").write_text(json.dumps(figures))
    benchmark["baseline"] = "speed.json"
    (project / "models" / "job.json").write_text(json.dumps(job))
    shutil.rmtree(runner.artifacts)
    runner.ran.clear()
    github["run_attempt"] = 2
    runner.run(workflow)
    assert [done.step for done in runner.ran if done.code] == [MEASURE]
    assert [done.step for done in runner.ran].count("Load the images") == 2
    assert {path.name for path in runner.artifacts.iterdir()} == {
        *(f"figures-{name}" for name in (cpu, metal)),
        f"modules-{metal}",
    }


GATE = """
[secrets.gate]
env = "GATE"
steps = ["test"]
variable = "GATE"
"""


@pytest.mark.proof
def test_a_rerun_goes_on_with_what_the_first_attempt_finished(
    tmp_path: Path, engine_environment: Mapping[str, str]
) -> None:
    # A secret's value defines no cell: what fails for it may pass in a rerun.
    # Nor is it part of a step's key: what passed in an earlier session must not be found in the cache.
    unique = f"import os, sys; session = '{uuid.uuid4()}'; "
    shut = unique + "sys.exit(os.environ['GATE'] == 'shut' and sys.version_info >= (3, 12))"
    recipe = RECIPE.replace('imports = ["tiny"]\n', f'imports = ["tiny"]\ncommand = "python -c \\"{shut}\\""\n')
    project = extension(tmp_path / "project", f"{recipe}max-jobs = 1\n{GATE}", SOURCE)
    bakery(project, "generate")
    workflow = (project / ".github/workflows/bakery-tiny.yml").read_text()
    github = {"run_attempt": 1, "event_name": "pull_request", "ref": "refs/pull/1/merge", "workflow": "wheels"}
    environment = {**os.environ, **engine_environment}
    runner = Runner(project, tmp_path / "actions", environment, github, secrets={"GATE": "shut"})
    runner.folder.mkdir()
    runner.run(workflow)
    assert {"bake", "wheels"} <= runner.failed
    assert {path.name for path in runner.artifacts.iterdir()} == {"report-cp311+1", "state-cp311+1"}

    runner.failed.clear()
    runner.ran.clear()
    github["run_attempt"] = 2
    runner.secrets["GATE"] = "open"
    runner.run(workflow)
    assert [(done.step, done.out[-3000:]) for done in runner.ran if done.code] == []
    (report,) = runner.temp(runner.place("bake", "cp311+1")).glob("bakery/state/runs/*/report.json")
    results = {target["name"]: target["result"] for target in json.loads(report.read_text())["targets"]}
    assert results == {"wheel-cp311": "kept", "test-cp311": "kept", "wheel-cp313": "done", "test-cp313": "done"}
    assert len(digests(runner.artifacts / "wheels-2")) == 4


@pytest.mark.proof
def test_a_release_that_ran_out_of_time_goes_on_with_its_objects(
    tmp_path: Path, engine_environment: Mapping[str, str]
) -> None:
    """Each attempt has a key of its own for cache mounts, as on machines of their own."""
    files = 24
    project = slow_project(tmp_path / "project", f"t{uuid.uuid4().hex}", 1, files, 1_200_000, 2)
    recipe = project / "bakery.toml"
    recipe.write_text(f'{recipe.read_text()}[cache]\nbackend = "gha"\n[ci]\ncache = "gha"\n')
    bakery(project, "generate")
    workflow = (project / ".github/workflows/bakery-tiny.yml").read_text()
    # The stages that projects share are cached then.
    bakery(project, "wheel", environment={"BAKERY_CACHE": "none", "BAKERY_OUTPUT": str(tmp_path / "o")})
    github = {"event_name": "push", "ref": "refs/tags/v1.0", "ref_type": "tag", "workflow": "wheels"}
    runner = Runner(project, tmp_path / "actions", {**os.environ, **engine_environment}, github)
    runner.folder.mkdir()
    # The others run again before the compile. How long that takes depends on the load of the machine.
    for seconds in (18, 30, 50, 80):
        shutil.rmtree(runner.folder)
        runner.folder.mkdir()
        runner.failed.clear()
        github |= {"run_attempt": 1, "repository": uuid.uuid4().hex}
        runner.run(re.sub(r"--timeout \d+m", f"--timeout {seconds}s", workflow))
        assert "bake" in runner.failed
        assert not (runner.folder / "cache").exists()
        (state,) = runner.artifacts.glob("state-*")
        (packed,) = state.rglob("ccache.tar")
        with tarfile.open(packed) as archive:
            objects = sum(name.endswith("R") for name in archive.getnames())
        if objects:
            break
    assert 0 < objects < files

    runner.failed.clear()
    runner.ran.clear()
    github |= {"run_attempt": 2, "repository": uuid.uuid4().hex}
    runner.run(workflow)
    assert [(done.step, done.out[-3000:]) for done in runner.ran if done.code] == []
    report = max(runner.temp(runner.place("bake", "cp311")).glob("bakery/state/runs/*/report.json"))
    (target,) = [item for item in json.loads(report.read_text())["targets"] if item["name"].startswith("wheel-")]
    assert target["compiler_cache"]["hits"] >= 0.95 * objects
    assert target["compiler_cache"]["compilations"] > files
