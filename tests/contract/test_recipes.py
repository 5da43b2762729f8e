"""buildx reads of every recipe's files what the plan says."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from buildx import Buildx, offline, printed, with_values
from file_trees import write_files
from plans import plan_of_file
from sample import sampled

from bakery.emit.bakefile import bake_json, bakefile
from bakery.emit.dockerfile import dockerfile
from bakery.emit.files import generate
from bakery.recipe.files import shipped
from bakery.resolve.epoch import EARLIEST as EPOCH
from bakery_iree.emit import batch_names, cell_target, generate_job, input_target
from bakery_iree.job.load import load as load_job
from bakery_iree.job.resolve import resolve as resolve_job

ROOT = Path(__file__).resolve().parents[2]
RECIPES = [*shipped(), *(str(file.parent.relative_to(ROOT)) for file in sorted(ROOT.glob("examples/*/bakery.toml")))]
JOB = ROOT / "packages/bakery-iree/tests/golden/jobs/job.json"
IMAGES = ("iree-cpu", "iree-cuda", "examples/image")
"""Recipes whose result is an image."""
SHARED = [f"tests/golden/recipes/{name}.toml" for name in ("abi3", "native", "cross")]
"""Recipes with fewer wheels than cells, and one that is cross compiled."""
GOLDEN = [str(file.relative_to(ROOT)) for file in sorted(ROOT.glob("tests/golden/recipes/*.toml"))]

SETS = (
    "*.tags=team/app:1", "dev.tags+=team/app:2", "wheel.cache-from=team/cache:a",
    "wheel.cache-from+=type=local,src=a", "test-*.cache-to=type=registry,ref=team/cache,mode=min",
    "*.labels.org.example.note=${A} %{if} $$ \"q\" 'r'", "full.contexts.base=docker-image://debian",
    "*.extra-hosts.db=10.0.0.1", "dev.no-cache=true", "*.pull=false", "test.shm-size=64m", "wheel.args.BUILDKIT_X=$x ${y}",
    "*-cp311*.args.BUILDKIT_Y=a=b.c",
)  # fmt: skip
VARIABLES = {
    "none": {},
    "gha": {"CACHE": "gha"},
    "registry": {"CACHE": "registry", "CACHE_REF": 'registry.example/team/cache,"x"', "CACHE_BRANCH": 'a/ü "${b}"'},
    "local": {"CACHE": "local", "CACHE_DIR": 'a,b "c"', "DEST": 'out,"put ${x}'},
}


@pytest.mark.parametrize(
    ("name", "variables"), sampled([(name, case) for name in [*RECIPES, *SHARED] for case in VARIABLES], 5)
)
def test_print_says_what_the_plan_says(buildx: Buildx, name: str, variables: str) -> None:
    buildx.assert_prints(plan_of_file(name, ROOT), variables=VARIABLES[variables])


@pytest.mark.parametrize("group", ["default", "wheel", "test", "dev", "full"])
def test_one_group(buildx: Buildx, group: str) -> None:
    buildx.assert_prints(plan_of_file("ujson", ROOT), groups=[group])


@pytest.mark.parametrize("file_name", ["ca.pem", 'a,b "c" ${x}.pem'])
def test_secrets_exist_when_their_files_are_named(buildx: Buildx, tmp_path: Path, file_name: str) -> None:
    file = tmp_path / file_name
    file.write_text("")
    buildx.assert_prints(plan_of_file("ujson", ROOT), variables={"CA_BUNDLE": str(file), "PIP_CONF": str(file)})


@pytest.mark.parametrize("command", ["", "license.txt"])
def test_secrets_of_a_recipe(buildx: Buildx, command: str) -> None:
    plan = plan_of_file("tests/golden/recipes/secrets.toml", ROOT)
    file = buildx.folder / plan.values()["SECRET_NETRC"]
    file.parent.mkdir(exist_ok=True)
    file.touch()
    (buildx.folder / "license.txt").touch()
    buildx.assert_prints(plan, variables={"SECRET_LICENSE": command})


def test_a_variable_of_the_environment(buildx: Buildx) -> None:
    buildx.assert_prints(
        plan_of_file("examples/cuda", ROOT), variables={"CUDA_VERSION": "12.8.0", "CUDA_ARCHS": "90;$x"}
    )


@pytest.mark.parametrize(
    ("name", "variables"), sampled([(name, case) for name in [*RECIPES, *SHARED] for case in ("none", "registry")], 5)
)
def test_targets_that_no_group_has(buildx: Buildx, name: str, variables: str) -> None:
    plan = with_values(plan_of_file(name, ROOT), VARIABLES[variables])
    targets = tuple(plan.targets())
    said = buildx.print(bakefile(plan), [target.name for target in targets], VARIABLES[variables])
    assert said["target"] == printed(bake_json(plan, targets))


@pytest.mark.parametrize(
    ("name", "cache"),
    sampled([(name, cache) for name in [*RECIPES, SHARED[0]] if name not in IMAGES for cache in ("none", "local")], 5),
)
def test_overrides(buildx: Buildx, name: str, cache: str) -> None:
    buildx.assert_prints(plan_of_file(name, ROOT, *SETS), variables={"CACHE": cache})


KEYS, PATTERNS = ("tags", "cache-from", "cache-to"), ("*", "wheel-*", "wheel-cp31[1]", "[_w]*")


@pytest.mark.parametrize(("key", "pattern", "last"), sampled(product(KEYS, PATTERNS, ("=", "+=")), 5))
def test_the_last_operator_governs_a_list(buildx: Buildx, key: str, pattern: str, last: str) -> None:
    sets = (f"{pattern}.{key}+=team/app:a", f"{pattern}.{key}{last}team/app:b", f"{pattern}.{key}{last}team/app:a")
    buildx.assert_prints(plan_of_file("ujson", ROOT, *sets), variables={"CACHE": "local"})


@pytest.mark.parametrize(
    "sets",
    [
        ("CUDA_VERSION=12.8.0",),
        ("*.args.CUDA_VERSION=12.8.0", "*.platforms=linux/arm64"),
        ("PYTHON_VERSION=3.14", "*.platform+=linux/arm64", "CACHE=registry", "CACHE_REF=a/b"),
    ],
)
def test_what_the_plan_takes_over(buildx: Buildx, sets: tuple[str, ...]) -> None:
    plan = plan_of_file("examples/cuda", ROOT, *sets)
    assert plan.overrides == ()
    buildx.assert_prints(plan)


@pytest.mark.parametrize("name", sampled([*RECIPES, *GOLDEN], 3))
def test_dockerfile_has_no_warnings(buildx: Buildx, name: str) -> None:
    plan = offline(plan_of_file(name, ROOT))
    text = dockerfile(plan)
    targets = buildx.frontend(text, "targets")["targets"]
    assert [target["name"] for target in targets] == ["programs", "tools", *(stage.name for stage in plan.stages)]
    found = buildx.frontend(text, "check", plan.stage_of(plan.kinds[0], plan.cells[0]))
    assert not found["warnings"]


@pytest.mark.parametrize("name", RECIPES)
def test_check_through_bake(buildx: Buildx, name: str) -> None:
    plan = offline(plan_of_file(name, ROOT))
    write_files(buildx.folder, generate(plan))
    # buildx carries out what a target says of its output, also of a check: an empty image under the name of the real one.
    every = ["--call=check", "--set=*.output=type=cacheonly", *plan.groups]
    for words in [every] if name in IMAGES else [["--check"], every]:
        done = buildx.call("bake", "-f", plan.bakefile, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "no warnings found" in done.stdout


@pytest.mark.parametrize(
    ("name", "variables", "message"),
    [
        ("examples/cuda", {"CUDA_VERSION": "12.8"}, "CUDA_VERSION: expected a CUDA release in three parts, such as"),
        ("examples/cuda", {"CUDA_VERSION": "12.8.0\n"}, "CUDA_VERSION: expected a CUDA release in three parts"),
        ("ujson", {"CACHE": "s3"}, "CACHE: expected one of none, gha, registry, local"),
        ("ujson", {"SOURCE_DATE_EPOCH": "now"}, "SOURCE_DATE_EPOCH: expected seconds since 1970"),
    ],
)
def test_validation_refuses(buildx: Buildx, name: str, variables: dict[str, str], message: str) -> None:
    file = buildx.folder / "refused.hcl"
    file.write_text(bakefile(plan_of_file(name, ROOT)), encoding="utf-8")
    done = buildx.call("bake", "-f", file.name, "--print", "wheel", variables=variables)
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())


UNDATED = ("--set", f"SOURCE_DATE_EPOCH={EPOCH}")
"""As in a file that is committed; a bake takes the time of the source's last commit."""


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["wheel"], ["wheel"]),
        (["full", "dev"], ["full", "dev"]),
        (["bake"], ["default"]),
        (["test", "--only", "*313"], ["test-cp313"]),
        (["wheel", "--set", "*.args.PYTHON_VERSION=3.13"], ["wheel"]),
    ],
    ids=" ".join,
)
def test_the_command_prints_what_buildx_prints(buildx: Buildx, arguments: list[str], names: list[str]) -> None:
    command = [sys.executable, "-m", "bakery", *arguments, "-r", "examples/cuda", "--print", *UNDATED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    sets = [text for text in arguments if "=" in text]
    assert json.loads(done.stdout) == buildx.print(bakefile(plan_of_file("examples/cuda", ROOT, *sets)), names)


def test_chosen_cells_of_a_shared_wheel(buildx: Buildx) -> None:
    command = [sys.executable, "-m", "bakery", "full", "--only", "cp313", "-r", SHARED[0], "--print", *UNDATED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == buildx.print(
        bakefile(plan_of_file(SHARED[0], ROOT)), ["wheel-cp311", "test-cp313"]
    )


def test_files_of_a_job(buildx: Buildx) -> None:
    plan = resolve_job(load_job(JOB, "job.json"))
    texts = generate_job(plan, "debian:bookworm-slim")
    (buildx.folder / "inputs").mkdir(exist_ok=True)
    said = buildx.print(texts["bake.hcl"], ["default", "batch"], {"DEST": "a ${b}"})
    assert isinstance(said["target"], dict)
    inputs = [input_target(cells) for batch in plan.inputs() for cells in batch]
    assert set(said["target"]) == {*map(cell_target, plan.cells), *batch_names(plan), *inputs}
    for cell in plan.cells:
        found = said["target"][cell_target(cell)]
        assert isinstance(found, dict)
        assert found["output"] == [{"type": "local", "dest": f"a ${{b}}/{cell.id}"}]
    # Here, stages take the place of the named contexts.
    text = "FROM scratch AS compiler\nFROM scratch AS tools\n" + texts["Dockerfile"]
    assert not buildx.frontend(text, "check", batch_names(plan)[0])["warnings"]
