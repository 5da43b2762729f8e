"""What ``wheel-bakery plan --size`` prints is exactly the text in sizes/, for people and for machines."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from recorded_runs import record_run
from typer.testing import CliRunner

from bakery.cli.app import app
from bakery.core.errors import PlanError
from bakery.recipe.load import load
from bakery.resolve.plan import resolve
from bakery.runs.journal import Record, Result, newest_records
from bakery.runs.run_folders import state_folder

FOLDER = Path(__file__).parent / "sizes"

GPU = """\
name = "gpu"

[variables]
CUDA_ARCHS = "80-real;90-real"

[matrix]
python = ["3.11", "3.13"]
cuda = ["12.8.0", "13.0.2"]

[[matrix.overrides]]
where = { cuda = "13.*" }
variables = { CUDA_ARCHS = "80-real;90-real;100-real" }

[builder]
toolkit = "cuda"
environment = { CUDAARCHS = "${CUDA_ARCHS}" }

[wheel]
naming = { clean = true, index = "public" }
"""

CPU = """\
name = "cpu"
matrix = { python = ["3.11", "3.13"] }
"""


COMMAND = ["plan", "--size", "-r", "./gpu.toml", "-r", "./cpu.toml"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "my-kernels"\nversion = "1.0"\n')
    (tmp_path / "gpu.toml").write_text(GPU)
    (tmp_path / "cpu.toml").write_text(CPU)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(*words: str) -> str:
    done = CliRunner().invoke(app, [*COMMAND, *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def record(project: Path, wheel: int) -> None:
    gpu, cpu = (resolve(load(f"./{name}.toml", project)[0]) for name in ("gpu", "cpu"))
    state = state_folder(project, os.environ)
    record_run(state, gpu, {"cp311-cu128": (wheel,), "cp313-cu128": (wheel + 400_000,)})
    record_run(state, cpu, {"cp311": (340_000,)})
    # Both built the same wheel.
    wheels = newest_records(state, cpu.recipe)["cp311"].wheels
    record_run(state, cpu, {}, Record("cp313", "key", Result.DONE, wheels=wheels))


def test_text_and_json(project: Path, golden: Callable[[Path, str], None]) -> None:
    record(project, 24_000_000)
    golden(FOLDER / "estimated.txt", printed())
    golden(FOLDER / "estimated.json", printed("--json"))


def test_before_the_first_run(project: Path, golden: Callable[[Path, str], None]) -> None:
    golden(FOLDER / "unknown.txt", printed())


def test_a_release_that_does_not_fit(project: Path, golden: Callable[[Path, str], None]) -> None:
    record(project, 3_000_000_000)
    done = CliRunner().invoke(app, COMMAND, env={"COLUMNS": "200"})
    assert isinstance(done.exception, PlanError)
    golden(
        FOLDER / "too-large.txt", f"{done.stdout}{done.exception.message}\n" + "\n".join(done.exception.details) + "\n"
    )
