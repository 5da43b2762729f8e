"""Which value wins, and where it came from."""

from __future__ import annotations

import re
from pathlib import Path

import plans
import pytest

from bakery.core.errors import PlanError, UsageError
from bakery.emit.bakefile import bakefile
from bakery.recipe.load import Loaded, from_python, load
from bakery.recipe.models import Recipe, Source, Variable
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import parse_set_options
from bakery.resolve.settings import Settings, check_environment, decide

TEXT = """\
name = "one"
platforms = ["linux/arm64"]

[variables]
CUDA_VERSION = { default = "13.0.3", description = "CUDA release" }
LEVEL = { default = "2", pattern = "[0-9]" }

[matrix]
python = ["3.11", "3.13"]
torch = ["2.7.1", "2.8.0"]

[builder]
toolkit = "cuda"
environment = { A = "${LEVEL}" }

[wheel.repair]
exclude = ["libcuda.so.*"]

[cache]
mode = "min"
"""


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    (tmp_path / "bakery.toml").write_text(TEXT)
    (item,) = load(None, tmp_path)
    return item


def values(settings: Settings) -> dict[str, str]:
    return {item.name: item.value for item in settings.variables}


def test_defaults_then_the_recipe(loaded: Loaded) -> None:
    settings = decide(loaded, {}, {}, None)
    assert settings.recipe.wheel.frontend == "build"
    assert settings.origins["wheel.frontend"] == ("build", "default")
    assert settings.recipe.cache.mode == "min"
    assert settings.origins["cache.mode"] == ("min", "bakery.toml:20")
    assert settings.origins["platforms"] == ("[linux/arm64]", "bakery.toml:2")
    assert settings.origins["variables.CUDA_VERSION"] == ("13.0.3", "bakery.toml:5")
    assert settings.origins["matrix.torch"] == ("[2.7.1, 2.8.0]", "bakery.toml:10")
    assert settings.recipe.wheel.repair.exclude == ("libcuda.so.*",)
    assert settings.recipe.builder.environment == {"A": "${LEVEL}"}
    assert settings.axes == {"python": ("3.11", "3.13"), "torch": ("2.7.1", "2.8.0"), "platform": ("linux/arm64",)}


def test_the_environment_above_the_recipe(loaded: Loaded) -> None:
    environ = {"BAKERY_LEVEL": "3", "LEVEL": "9", "BAKERY_CACHE": "gha", "BAKERY_TORCH_VERSION": "2.9"}
    settings = decide(loaded, environ, {}, None)
    assert values(settings)["LEVEL"] == "3"
    assert settings.origins["variables.LEVEL"] == ("3", "BAKERY_LEVEL")
    assert settings.recipe.cache.backend == values(settings)["CACHE"] == "gha"
    assert settings.origins["cache.backend"] == ("gha", "BAKERY_CACHE")
    assert settings.axes["torch"] == ("2.9",)
    assert settings.origins["matrix.torch"] == ("[2.9]", "BAKERY_TORCH_VERSION")


def test_an_empty_variable_of_the_environment_is_none(loaded: Loaded) -> None:
    assert values(decide(loaded, {"BAKERY_LEVEL": ""}, {}, None))["LEVEL"] == "2"


def test_the_command_line_above_the_environment(loaded: Loaded) -> None:
    environ = {"BAKERY_LEVEL": "3", "BAKERY_PYTHON_VERSION": "3.9"}
    settings = decide(loaded, environ, {"LEVEL": "4", "PYTHON_VERSION": "3.14"}, ("linux/amd64",))
    assert values(settings)["LEVEL"] == "4"
    assert settings.origins["variables.LEVEL"] == ("4", "--set")
    assert settings.axes["python"] == ("3.14",)
    assert settings.origins["platforms"] == ("[linux/amd64]", "--set")


def test_every_default_has_an_origin(loaded: Loaded) -> None:
    origins = decide(loaded, {}, {}, None).origins
    assert origins["source.path"] == (".", "default")
    assert origins["native.network"] == ("False", "default")
    assert origins["cache.gha.limit"] == ("10 GB", "default")
    assert list(origins) == sorted(origins)


def test_another_source_has_no_default(tmp_path: Path) -> None:
    source = Source(git="https://example.com/a.git", ref="v1")
    assert "source.path" not in decide(from_python(Recipe(name="x", source=source), tmp_path), {}, {}, None).origins


def test_a_recipe_made_in_python_has_origins(tmp_path: Path) -> None:
    item = from_python(Recipe.model_validate({"name": "x", "variables": {"A": "1"}}), tmp_path)
    settings = decide(item, {}, {}, None)
    assert settings.origins["variables.A"] == ("1", "python")
    assert settings.origins["name"] == ("x", "python")


def test_unknown_variables_of_the_command_line(loaded: Loaded) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(loaded, parse_set_options(["LEVLE=1", "ZZZ=1"]))
    assert caught.value.details == ("LEVLE: did you mean LEVEL?", 'ZZZ: declare it: [variables] ZZZ = "1"')


def test_a_mistyped_variable_of_the_environment_is_refused() -> None:
    known = {"PYTHON_VERSION", "CUDA_VERSION"}
    check_environment(
        {"BAKERY_CUDA_VERSION": "1", "BAKERY_ONLY": "a", "BAKERY_CACHE_EXPIRE_AFTER": "1", "HOME": "/"}, known
    )
    with pytest.raises(UsageError) as caught:
        check_environment({"BAKERY_MAX_PARALEL": "2", "BAKERY_CUDA_VERSON": "1"}, known)
    assert caught.value.details == (
        "BAKERY_CUDA_VERSON: did you mean BAKERY_CUDA_VERSION?",
        "BAKERY_MAX_PARALEL: did you mean BAKERY_MAX_PARALLEL?",
    )


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("LEVEL", "22", "LEVEL: expected a value that matches [0-9], got '22'"),
        ("LEVEL", "2\n", "LEVEL: expected a value that matches [0-9], got '2\\n'"),
        ("CUDA_VERSION", "12.8", "CUDA_VERSION: expected a CUDA release in three parts, such as 12.8.0, got '12.8'"),
        (
            "CUDA_VERSION",
            f"12.8.{'0' * 5000}",
            f"CUDA_VERSION: expected a CUDA release in three parts, such as 12.8.0, got '12.8.{'0' * 75}'",
        ),
        ("CACHE", "s3", "CACHE: expected one of none, gha, registry, local, got 's3'"),
        (
            "SOURCE_DATE_EPOCH",
            "now",
            "SOURCE_DATE_EPOCH: expected seconds since 1970, not milliseconds, at most 4353999999: the times of zip archives end in 2107, got 'now'",
        ),
        ("CACHE_REF", "a\x01", "CACHE_REF: expected one line of Unicode text without control characters"),
    ],
)
def test_values_that_do_not_fit(loaded: Loaded, name: str, value: str, reason: str) -> None:
    with pytest.raises(PlanError) as caught:
        decide(loaded, {f"BAKERY_{name}": value}, {}, None)
    assert caught.value.details == (reason,)


def test_a_pattern_of_its_own_narrows_what_a_release_looks_like(tmp_path: Path) -> None:
    """CUDA_MINOR and CUDA_TAG of a release with two parts would be its major."""
    variable = Variable(default="13.0", pattern="1[0-9.]+")
    item = from_python(Recipe(name="x", variables={"CUDA_VERSION": variable}), tmp_path)
    expected = "a CUDA release in three parts, such as 12.8.0, and a value that matches 1[0-9.]+"
    for value in ("13.0", "9.0.1"):
        with pytest.raises(PlanError) as caught:
            decide(item, {}, {"CUDA_VERSION": value}, None)
        assert caught.value.details == (f"CUDA_VERSION: expected {expected}, got '{value}'",)
    text = bakefile(resolve(item, parse_set_options(["CUDA_VERSION=13.0.3"])))
    condition = re.search(r"condition += (.*CUDA_VERSION.*)", text)
    assert condition
    assert condition[1].count(" && ") == 1
    assert f'"CUDA_VERSION: expected {expected}"' in text


def test_an_axis_takes_the_place_of_its_variable(tmp_path: Path) -> None:
    data = {"name": "x", "builder": {"toolkit": "cuda"}, "matrix": {"cuda": ["12.8.1", "13.0.3"]}}
    settings = decide(from_python(Recipe.model_validate(data), tmp_path), {}, {}, None)
    assert "CUDA_VERSION" not in values(settings)
    assert settings.axes["cuda"] == ("12.8.1", "13.0.3")


def test_a_toolkit_needs_a_release(tmp_path: Path) -> None:
    item = from_python(Recipe.model_validate({"name": "x", "builder": {"toolkit": "cuda"}}), tmp_path)
    with pytest.raises(PlanError, match="needs to know the CUDA release"):
        decide(item, {}, {}, None)


def test_the_plan_keeps_the_origins(loaded: Loaded) -> None:
    plan = resolve(loaded, parse_set_options(["LEVEL=5"]), {"BAKERY_CUDA_VERSION": "12.8.1"})
    assert plan.origins["variables.LEVEL"] == ("5", "--set")
    assert plan.origins["variables.CUDA_VERSION"] == ("12.8.1", "BAKERY_CUDA_VERSION")


def test_texts_are_composed(tmp_path: Path) -> None:
    """HCL composes every string; one form from the start keeps plan and bake file the same."""
    apart, composed = "e\u0301 \uf900", "\u00e9 \u8c48"
    recipe = Recipe(name="demo", variables={"TEXT": Variable(default=apart), "OTHER": Variable(default="")})
    made = plans.planned(recipe, tmp_path, f"*.args.BUILDKIT_X={apart}", environ={"BAKERY_OTHER": apart})
    assert made.values()["TEXT"] == made.values()["OTHER"] == composed
    assert made.cells[0].args["BUILDKIT_X"] == composed
