"""cibuildwheel's own reading of the configurations: its identifiers are the plan's cells, its schema admits them."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tomllib
from importlib.resources import files
from itertools import product
from pathlib import Path

import jsonschema
import plans
import pytest
from cibuildwheel.environment import parse_environment
from cibuildwheel.options import BuildOptions, CommandLineArguments, EnvironmentFormat
from cibuildwheel.options import Options as CibuildwheelOptions
from file_trees import write_files
from sample import sampled

from bakery.core.names import SYSTEMS
from bakery.emit.cibuildwheel import configurations, identifier, variants
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.recipe.files import shipped

ROOT = Path(__file__).parents[2]
RECIPES = [
    *(name for name in shipped() if not name.startswith("iree-")),
    "examples/cpp",
    "examples/cuda",
    "tests/golden/recipes/three-systems.toml",
]


def write(plan: Plan, folder: Path) -> dict[str, Path]:
    write_files(folder, {**configurations(plan), "pyproject.toml": ""})
    return {name: folder / "cibuildwheel" / f"{name}.toml" for name in variants(plan)}


def printed(config: Path, system: str) -> list[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CIBW_")}
    command = [sys.executable, "-m", "cibuildwheel", "--config-file", str(config), "--platform", system]
    done = subprocess.run(
        [*command, "--print-build-identifiers", "."],
        cwd=config.parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.split())


def wanted(cells: tuple[Cell, ...], system: str) -> list[str]:
    return sorted(identifier(cell) for cell in cells if cell.platform.startswith(f"{system}/"))


@pytest.mark.parametrize(("recipe", "platform"), sampled(product(RECIPES, ["own", "linux/arm64"]), 3))
def test_identifiers_are_the_plans_cells(recipe: str, platform: str, tmp_path: Path) -> None:
    plan = plans.plan_of_file(recipe, ROOT, *([f"*.platform={platform}"] if platform != "own" else []))
    configs = write(plan, tmp_path)
    for name, cells in variants(plan).items():
        for system in SYSTEMS:
            if ids := wanted(cells, system):
                assert printed(configs[name], system) == ids
    assert {cell.id for cells in variants(plan).values() for cell in cells} == {
        cell.id for cell in (*plan.cells, *plan.cibuildwheel_cells)
    }


@pytest.mark.parametrize("recipe", RECIPES)
def test_configurations_fit_cibuildwheels_schema(recipe: str, tmp_path: Path) -> None:
    schema = json.loads(files("cibuildwheel").joinpath("resources/cibuildwheel.schema.json").read_text())
    for path in write(plans.plan_of_file(recipe, ROOT), tmp_path).values():
        jsonschema.validate(tomllib.loads(path.read_text())["tool"]["cibuildwheel"], schema)


def test_a_platform_is_added_by_the_recipe_alone(tmp_path: Path) -> None:
    text = 'name = "demo"\nplatforms = ["linux/amd64"%s]\n'
    old, new = plans.written(tmp_path, text % ""), plans.written(tmp_path, text % ', "windows/arm64"')
    assert [cell.id for cell in new.cells] == [cell.id for cell in old.cells] == ["cp311"]
    assert [cell.id for cell in new.cibuildwheel_cells] == ["cp311-win_arm64"]
    (config,) = write(new, tmp_path).values()
    assert printed(config, "windows") == ["cp311-win_arm64"]


@pytest.mark.parametrize("value", ['say "$HOME"', "a `b` $(id) \\ c", "x y  z", "ö=$", "'"])
def test_values_of_the_environment_arrive_as_they_are(value: str, tmp_path: Path) -> None:
    quoted = json.dumps(value, ensure_ascii=False)
    (config,) = write(
        plans.written(tmp_path, f'name = "demo"\n[builder]\nenvironment = {{ V = {quoted} }}\n'), tmp_path
    ).values()
    table = tomllib.loads(config.read_text())["tool"]["cibuildwheel"]["environment"]
    read = parse_environment(EnvironmentFormat().format_table(table)).as_dictionary({"HOME": "wrong"})
    assert read["V"] == value


ALL = 'name = "demo"\nplatforms = ["linux/amd64", "linux/arm64", "macos/arm64", "windows/amd64"]\n'


def read(recipe: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, BuildOptions]:
    """Return the options of each identifier, as cibuildwheel reads them from the configurations of a recipe."""
    monkeypatch.chdir(folder)
    plan, found = plans.written(folder, recipe), {}
    configs = write(plan, folder)
    for name, cells in variants(plan).items():
        for cell in cells:
            arguments = dataclasses.replace(CommandLineArguments.defaults(), config_file=str(configs[name]))
            system = cell.platform.partition("/")[0]
            options = CibuildwheelOptions(platform=system, command_line_arguments=arguments, env={})  # type: ignore[arg-type]
            found[cell.id] = options.build_options(identifier(cell))
    return found


def test_values_of_single_cells_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = """
[variables]
FLAVOR = "fast food"
TAG = "1"
[matrix]
python = ["3.11", "3.13"]
[[matrix.overrides]]
where = { python = "3.11" }
variables = { FLAVOR = "slow", TAG = "2" }
[builder]
base = { image = "quay.io/pypa/manylinux_2_28_x86_64:${TAG}" }
before-build = 'printf %s "${FLAVOR} $PYTHON_VERSION" > told'
[macos]
before-all = "brew install ${FLAVOR}"
"""
    found = read(ALL + recipe, tmp_path, monkeypatch)
    for python, flavor, tag in (("cp311", "slow", "2"), ("cp313", "fast food", "1")):
        for machine in ("x86_64", "aarch64"):
            options = found[f"{python}-linux_{machine}"]
            assert options.manylinux_images
            assert options.manylinux_images[machine] == f"quay.io/pypa/manylinux_2_28_x86_64:{tag}"
            assert options.before_build
            subprocess.run(["sh", "-c", options.before_build.replace("{package}", ".")], check=True, cwd=tmp_path)
            # The shell has the variables that the command refers to as ${NAME}.
            assert (tmp_path / "told").read_text() == f"{flavor} "
        assert found[f"{python}-macosx_arm64"].before_all == f"brew install {flavor}"


def test_each_value_of_an_axis_has_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = (
        '[matrix]\ncuda = ["12.8.0", "12.9.0"]\nblas = ["1.1.0", "11.0"]\n[builder.environment]\nBLAS = "${BLAS}"\n'
    )
    found = read('name = "demo"\n' + recipe, tmp_path, monkeypatch)
    assert {name: item.environment.as_dictionary({})["BLAS"] for name, item in found.items()} == {
        f"cp311-cu{cuda}-blas{blas.replace('.', '')[:-1] if blas == '1.1.0' else '110'}": blas
        for cuda in ("128", "129")
        for blas in ("1.1.0", "11.0")
    }
    # As long as the long names differ, they stay: another release changes no file's name.
    assert sorted(path.name for path in (tmp_path / "cibuildwheel").glob("*.toml"))[0] == "demo-cu1280-blas11.toml"


@pytest.mark.parametrize("command", ["a; b || test $? -eq 5", "a || true", "a 'x;y' && b | cat", "pytest"])
def test_a_failed_smoke_test_is_not_hidden(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = f'[test]\nimports = ["demo"]\nfiles = ["tests"]\ncommand = {json.dumps(command)}\n'
    found = read(ALL + recipe, tmp_path, monkeypatch)
    (tmp_path / "python").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "python").chmod(0o755)
    for name in ("cp311-linux_x86_64", "cp311-macosx_arm64"):
        text = found[name].test_command
        assert text
        done = subprocess.run(["sh", "-c", text], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
        assert done.returncode == 3
    smoke, take = (
        "python {project}/cibuildwheel/smoke.py {wheel} --import demo",
        "python {project}/cibuildwheel/steps.py",
    )
    windows, take = found["cp311-win_amd64"].test_command, f'{take} take {{package}} "tests"'
    plain = "|" not in command
    assert windows == (
        f"{smoke} && {take} && {command}" if plain else f"{smoke} || exit 1 & {take} || exit 1 & {command}"
    )


def test_a_command_for_a_gpu_is_not_run_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = '[test]\ngpu = true\ncommand = "pytest"\nfiles = ["tests"]\n[windows]\ntest-command = "own"\n'
    found = read(ALL + recipe, tmp_path, monkeypatch)
    commands = {name: str(options.test_command) for name, options in found.items()}
    assert [name for name, text in commands.items() if "pytest" in text] == []
    assert [name for name, text in commands.items() if "tests" in text and text.endswith("&& own")] == [
        "cp311-win_amd64"
    ]


def test_words_for_cmd_have_no_quote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marked = """requires = ['numpy>=2; python_version < "3.13"']"""
    recipe = f"{ALL}[wheel]\n{marked}\n[builder]\n{marked.replace('requires', 'requirements')}\n"
    options = read(recipe, tmp_path, monkeypatch)["cp311-win_amd64"]
    for text in (options.repair_command, str(options.before_build)):
        assert """ "numpy>=2; python_version < '3.13'\"""" in text


@pytest.mark.parametrize(
    ("glob", "text"),
    [
        ("libomp.dylib", "libomp.dylib"),
        ("libomp*.dylib", "libomp"),
        ("libc*.dylib", "libc"),
        ("*omp.dylib", "omp.dylib"),
        ("[12]omp?a.dylib", "a.dylib"),
        ("libomp[12].dylib", "libomp"),
        ("*.dylib", ".dylib"),
    ],
)
def test_delocate_gets_a_part_of_the_name(
    glob: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = read(f'{ALL}[wheel.repair]\nexclude = ["{glob}"]\n', tmp_path, monkeypatch)["cp311-macosx_arm64"]
    assert f" --exclude {text} " in options.repair_command


@pytest.mark.parametrize(("frontend", "by"), [("build", "-m pip"), ("uv", "{project}/cibuildwheel/steps.py")])
def test_the_last_step_of_the_repair_has_its_package(
    frontend: str, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = f'{ALL}[wheel]\nfrontend = "{frontend}"\nnaming = {{ clean = true }}\n'
    assert read(recipe, tmp_path, monkeypatch)["cp311-macosx_arm64"].before_build == f"python {by} install wheel"
    assert (tmp_path / "cibuildwheel/steps.py").exists() == (frontend == "uv")
