"""``--incremental``: which recipes it refuses and why, and what it changes in a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.core.errors import UsageError
from bakery.plan.dockerfile import Arg, Command, Run, Stage
from bakery.plan.model import Plan
from bakery.recipe.load import from_python
from bakery.recipe.models import Recipe
from bakery.resolve.incremental import STAGE, incremental
from bakery.resolve.plan import resolve

BACKENDS = {
    "scikit_build_core.build": ("/tmp/build", []),
    "mesonpy": ("/src/.mesonpy-incremental", ["-Cbuild-dir=.mesonpy-incremental"]),
    "maturin": (".rustc_info.json", []),
}


def plan_of(folder: Path, backend: str = "mesonpy", **recipe: object) -> Plan:
    (folder / "pyproject.toml").write_text(f'[build-system]\nbuild-backend = "{backend}"\n')
    written = {"name": "x", "matrix": {"python": ["3.11"]}, **recipe}
    return resolve(from_python(Recipe.model_validate(written), folder))


def compiling(plan: Plan) -> tuple[Stage, Run, list[str]]:
    """Return the stage that compiles, its step, and the words of the command that builds."""
    stage = next(item for item in plan.stages if item.name == STAGE)
    run = next(step for step in stage.steps if isinstance(step, Run))
    (command,) = (item for item in run.commands if isinstance(item, Command) and ("--wheel",) in item.words)
    return stage, run, ["".join(str(part) for part in word) for word in command.words]


@pytest.mark.parametrize("frontend", ["build", "uv"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_only_the_step_that_compiles_changes(tmp_path: Path, backend: str, frontend: str) -> None:
    plan = plan_of(tmp_path, backend, wheel={"frontend": frontend})
    changed = incremental(tmp_path, plan)
    assert [stage for stage in changed.stages if stage.name != STAGE] == [
        stage for stage in plan.stages if stage.name != STAGE
    ]
    folder, options = BACKENDS[backend]
    _, before, old = compiling(plan)
    stage, run, words = compiling(changed)
    assert words[:2] == ["/opt/bakery/bin/python", "/usr/local/bin/incremental.py"]
    assert words[3] == folder
    assert words[5:] == [*old[:-1], *options, "/src"]
    (store,) = (mount for mount in run.mounts if mount.target == "/var/cache/incremental")
    assert (store.type, store.id) == ("cache", "bakery-incremental-${TARGETARCH}")
    assert {*before.mounts} < {*run.mounts}
    assert Arg("PYTHON_VERSION") in stage.steps


def test_cells_have_names_of_their_own(tmp_path: Path) -> None:
    cells = {"python": ["3.11", "3.13"], "blas": ["mkl", "openblas"]}
    stage, _, words = compiling(incremental(tmp_path, plan_of(tmp_path, matrix=cells)))
    assert words[2].count("Ref(") == 2
    assert {Arg("PYTHON_VERSION"), Arg("BLAS")} <= {*stage.steps}
    # The wheel of all Pythons is built by one of them.
    stage, _, words = compiling(
        incremental(tmp_path, plan_of(tmp_path, matrix={"python": ["3.11", "3.13"]}, wheel={"abi3": "3.11"}))
    )
    assert "WHEEL_PYTHON" in words[2]


REFUSED: dict[str, tuple[str, dict[str, object]]] = {
    "source: it is not a folder": ("mesonpy", {"source": {"sdist": "demo==1.0"}}),
    "secrets: the build gets a secret": (
        "mesonpy",
        {"secrets": {"token": {"env": "TOKEN", "variable": "TOKEN", "steps": ["compile"]}}},
    ),
    "builder.network: ": ("mesonpy", {"builder": {"network": True}}),
    "builder.compiler-cache: it is off": ("mesonpy", {"builder": {"compiler-cache": False}}),
    "builder.environment.SKBUILD_BUILD_DIR: ": (
        "scikit_build_core.build",
        {"builder": {"environment": {"SKBUILD_BUILD_DIR": "/tmp/other"}}},
    ),
    "wheel.config-settings: ": ("mesonpy", {"wheel": {"config-settings": {"build-dir": "other"}}}),
    "setuptools.build_meta does not record which headers": ("setuptools.build_meta", {}),
    "hatchling.build is not known to record": ("hatchling.build", {}),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_recipe_that_could_give_another_wheel(tmp_path: Path, reason: str) -> None:
    backend, recipe = REFUSED[reason]
    with pytest.raises(UsageError) as caught:
        incremental(tmp_path, plan_of(tmp_path, backend, **recipe))
    (detail,) = caught.value.details
    assert reason in detail
    assert "without --incremental" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[", "it cannot be read"),
        ("", "setuptools.build_meta does not record"),
        ('[build-system]\nbuild-backend = "mesonpy"\nbackend-path = ["."]\n', "mesonpy is not known to record"),
        ("build-system = 3\n", "is not known to record"),
    ],
)
def test_an_unknown_build_backend(tmp_path: Path, text: str, reason: str) -> None:
    plan = plan_of(tmp_path, builder={"network": True})
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        incremental(tmp_path, plan)
    # All problems at once.
    assert len(caught.value.details) == 2
    assert reason in caught.value.details[1]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["full"], "it is for the target wheel"),
        (["dev"], "it is for the target wheel"),
        (["wheel", "test"], "it is for the target wheel"),
        (["wheel", "--locked"], "--locked is for releases"),
        (["wheel", "--builder", "farm"], "--builder: another node"),
        (["wheel", "--backend", "cibuildwheel"], "cibuildwheel builds everything"),
    ],
)
def test_commands_that_refuse_the_option(words: list[str], reason: str) -> None:
    done = CliRunner().invoke(app, [*words, "--incremental"])
    error = done.exception
    assert isinstance(error, UsageError)
    (detail,) = error.details
    assert detail.startswith(reason)
