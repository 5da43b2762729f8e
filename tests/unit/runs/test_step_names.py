"""What steps do, in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from plans import plan_of_file

from bakery.plan.dockerfile import Add, Run
from bakery.runs.buildx.rawjson import parse
from bakery.runs.buildx.step_names import step_names

ROOT = Path(__file__).parents[3]
RECIPES = sorted([*ROOT.glob("tests/golden/recipes/*.toml"), *ROOT.glob("examples/*/bakery.toml")])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("[cuda-test 2/2] RUN pytest", "test"),
        ("[cuda-13-requirements 1/1] RUN x", "resolve CUDA 13.0.3"),
        ("[cuda-13 1/1] RUN x", "toolkit CUDA 13.0.3"),
        ("[toolkit 1/1] WORKDIR /x", "toolkit CUDA 13.0.3"),
        ("[tools 1/1] COPY x", "prepare"),
        ("[python-3.13 1/1] FROM docker.io/library/debian:trixie-slim@sha256:12", "image debian:trixie-slim"),
        (
            "[base-amd64 1/1] FROM quay.io/pypa/manylinux_2_28_x86_64:1@sha256:12",
            "image quay.io/pypa/manylinux_2_28_x86_64:1",
        ),
        ("exporting to client directory", "copy the result"),
        ("exporting to image", "write the image"),
        ("[internal] load build context", "[internal] load build context"),
        ("[own-stage 1/2] RUN x", "own-stage"),
    ],
)
def test_names(name: str, words: str) -> None:
    plan = plan_of_file(None, ROOT / "examples/cuda")
    cell = next(cell for cell in plan.cells if plan.args_of(cell)["CUDA_VERSION"] == "13.0.3")
    assert step_names(plan, cell)(parse(name, ())) == words


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_stage_that_runs_a_command_says_what_it_does(path: Path) -> None:
    for stage in plan_of_file(str(path), path.parent).stages:
        if any(isinstance(step, Run | Add) for step in stage.steps) and stage.name != "lock":
            assert stage.says != "prepare", stage.name
