"""with-jobs: how many compilers run at a time, on this very machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import plans
import pytest
from pydantic import ValidationError

from bakery.core.names import size_mb
from bakery.plan.dockerfile import Command, Run
from bakery.plan.values import literal
from bakery.recipe.models import Builder
from bakery.runs.scheduler import USABLE

SCRIPT = Path(__file__).parents[3] / "bakery/toolchains/programs/with-jobs"
CORES = len(os.sched_getaffinity(0))
TOLD = ("CMAKE_BUILD_PARALLEL_LEVEL", "EXT_PARALLEL", "MAX_JOBS", "NVCC_THREADS")


def told(memory: str, jobs: str, environment: Mapping[str, str] | None = None) -> list[str]:
    """Return what a command behind with-jobs finds in its environment, in the order of TOLD."""
    printed = " ".join(f"${name}" for name in TOLD)
    command = ["sh", str(SCRIPT), memory, jobs, "sh", "-c", f"echo {printed}"]
    done = subprocess.run(
        command, env={"PATH": os.environ["PATH"], **(environment or {})}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_programs_use_the_share_that_the_schedule_counts_with() -> None:
    assert f"free * {round(USABLE * 100)} / 100 / memory" in SCRIPT.read_text()
    assert f"\nUSABLE = {USABLE}\n" in SCRIPT.with_name("slot.py").read_text()


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ("1", ["1", "1", "1", "1"]),
        ("7", ["7", "1", "7", "1"]),
        ("8", ["8", "2", "4", "1"]),
        ("16", ["16", "4", "4", "1"]),
        ("40", ["40", "4", "10", "1"]),
    ],
)
def test_a_fixed_number_is_split_between_extensions(jobs: str, expected: list[str]) -> None:
    assert told("0MB", jobs) == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"MAX_JOBS": "3"}, ["8", "2", "3", "1"]),
        ({"MAX_JOBS": "32"}, ["8", "1", "32", "1"]),
        ({"MAX_JOBS": "1"}, ["8", "4", "1", "1"]),
        ({"EXT_PARALLEL": "4"}, ["8", "4", "2", "1"]),
        ({"EXT_PARALLEL": "16"}, ["8", "16", "1", "1"]),
        ({"CMAKE_BUILD_PARALLEL_LEVEL": "5", "NVCC_THREADS": "2"}, ["5", "2", "4", "2"]),
        ({"MAX_JOBS": "0"}, ["8", "4", "0", "1"]),
        ({"MAX_JOBS": "08"}, ["8", "4", "08", "1"]),
        ({"MAX_JOBS": "four"}, ["8", "4", "four", "1"]),
        ({"EXT_PARALLEL": "0"}, ["8", "0", "8", "1"]),
    ],
)
def test_what_the_environment_sets_stays_and_the_rest_follows(environment: dict[str, str], expected: list[str]) -> None:
    assert told("3500MB", "8", environment) == expected


def test_memory_and_cores_are_those_of_this_machine() -> None:
    assert told("1MB", "auto")[0] == str(CORES)
    assert told("99999999MB", "auto") == ["1", "1", "1", "1"]
    meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total = int(meminfo["MemTotal"].split()[0]) * 1024 // 10**6
    # Some of it is left free, so that not even one of this size fits; one there is.
    assert told(f"{total}MB", "auto")[0] == "1"


def test_compilers_that_wait_for_memory_themselves_may_all_start() -> None:
    environment = {"CCACHE_PREFIX": "/usr/local/bin/slot.py", "PATH": "/usr/bin:/bin"}
    assert told("99999999MB", "auto", environment)[0] == str(CORES)
    assert told("1MB", "3", environment)[0] == "3"
    command = ["sh", str(SCRIPT), "99999999MB", "auto", "sh", "-c", 'echo "$BAKERY_JOB_MEMORY $CARGO_BUILD_JOBS"']
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    # rustc does not wait.
    assert done.stdout.split() == ["99999999", "1"]


def test_an_nvcc_that_nothing_is_in_front_of_keeps_its_limit(tmp_path: Path) -> None:
    (tmp_path / "nvcc").write_text("#!/bin/sh\n")
    (tmp_path / "nvcc").chmod(0o755)
    environment = {"CCACHE_PREFIX": "/usr/local/bin/slot.py", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert told("99999999MB", "auto", environment)[0] == "1"
    assert told("99999999MB", "auto", environment | {"PYTORCH_NVCC": "sccache nvcc"})[0] == "1"
    launcher = {"PYTORCH_NVCC": "/usr/local/bin/nvcc-ccache"}
    assert told("99999999MB", "auto", environment | launcher)[0] == str(CORES)


def test_nvcc_is_told_last() -> None:
    command = ["sh", str(SCRIPT), "0MB", "2", "sh", "-c", 'echo "$NVCC_APPEND_FLAGS"']
    for own, expected in (("", "--threads=1"), ("-lineinfo", "-lineinfo --threads=1")):
        environment = {"PATH": os.environ["PATH"], "NVCC_APPEND_FLAGS": own}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def test_the_exit_status_is_the_commands() -> None:
    assert (
        subprocess.run(
            ["sh", str(SCRIPT), "0MB", "1", "sh", "-c", "exit 7"], capture_output=True, check=False
        ).returncode
        == 7
    )


@pytest.mark.parametrize(("text", "expected"), [("3.5 GB", 3500), ("900 MB", 900), ("2GB", 2000), ("0.001 MB", 1)])
def test_sizes(text: str, expected: int) -> None:
    assert size_mb(text) == expected


@pytest.mark.parametrize("text", ["0 GB", "3.5", "3,5 GB", "3.5 GiB", "-1 GB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValidationError, match="expected a size such as"):
        Builder(job_memory=text)


def words(folder: Path, text: str) -> dict[str, list[str]]:
    """Return stage → the first words of its commands that compile, after those that may stop it at a question to git."""
    plan = plans.written(folder, f'name = "kernels"\n{text}')
    return {
        stage.name: ["".join(map(str, word)) for word in command.words[command.words.index(literal("--")) + 1 :][:4]]
        for stage in plan.stages
        for step in stage.steps
        if isinstance(step, Run)
        for command in step.commands
        if isinstance(command, Command) and any(name in str(command.words) for name in ("with-ccache", "with-jobs"))
    }


def test_recipes_without_it_compile_as_before(tmp_path: Path) -> None:
    assert words(tmp_path, "")["compile"][:2] == ["/programs/with-ccache", "python"]


def test_both_steps_that_compile_are_behind_it(tmp_path: Path) -> None:
    native = '[native]\ncommand = "make"\ninto = "src/lib"\n'
    found = words(tmp_path, f'[builder]\njob-memory = "3.5 GB"\n{native}')
    stages = ("native", "native-again", "compile", "compile-again")
    assert found == {name: ["/programs/with-ccache", "/programs/with-jobs", "3500MB", "auto"] for name in stages}
    found = words(tmp_path, "[builder]\njobs = 4\ncompiler-cache = false\n")
    assert found["compile"] == ["/programs/with-jobs", "0MB", "4", "python"]
