"""cibuildwheel's own reading of the configurations: its identifiers are the plan's cells, its schema admits them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import jsonschema
import plans
import pytest
from cibuildwheel.environment import parse_environment
from cibuildwheel.options import EnvironmentFormat

from bakery.core.names import SYSTEMS
from bakery.emit.cibuildwheel import configurations, identifier, variants
from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.recipe.files import shipped
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import parse_set_options

ROOT = Path(__file__).parents[2]
RECIPES = [
    *(name for name in shipped() if not name.startswith("iree-")),
    "examples/cpp",
    "examples/cuda",
    "tests/golden/recipes/three-systems.toml",
]


def plan_of(recipe: str, *sets: str) -> Plan:
    (item,) = load(recipe, ROOT)
    return resolve(item, parse_set_options(sets))


def write(plan: Plan, folder: Path) -> dict[str, Path]:
    for path, text in configurations(plan).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    (folder / "pyproject.toml").write_text("")
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


@pytest.mark.parametrize("platform", ["own", "linux/arm64"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_identifiers_are_the_plans_cells(recipe: str, platform: str, tmp_path: Path) -> None:
    plan = plan_of(recipe, *([f"*.platform={platform}"] if platform != "own" else []))
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
    for path in write(plan_of(recipe), tmp_path).values():
        jsonschema.validate(tomllib.loads(path.read_text())["tool"]["cibuildwheel"], schema)


def test_a_platform_is_added_by_the_recipe_alone(tmp_path: Path) -> None:
    text = 'name = "demo"\nplatforms = ["linux/amd64"%s]\n'
    (tmp_path / "bakery.toml").write_text(text % "")
    (before,) = load(None, tmp_path)
    old, new = resolve(before), plans.written(tmp_path, text % ', "windows/arm64"')
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
