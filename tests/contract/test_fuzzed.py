"""Many hostile inputs for every reader: a result or one clean error each, soon and in little memory."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from buildx import Buildx
from fuzz.recipes import plans_of
from fuzz.runner import read_files, read_made
from fuzz.targets import TARGETS

COUNTS = {"wheel": 5000, "recipe": 5000, "lock": 2000, "provenance": 2000, "job": 2000, "mlir": 2000, "vmfb": 2000}
COUNTS |= dict.fromkeys(("served-index", "store", "git-folder", "exported", "run"), 5000)
COUNTS |= dict.fromkeys(("setup-cfg", "setup-py", "cibuildwheel"), 5000)
# Each needs a process of git.
COUNTS |= {"git-tree": 2000}
OTHERS = 1000
PARTS = 4
"""Each number of inputs is read in so many parts, for as many processors."""

OF_PROJECTS = ("git-tree", "git-folder", "recipe", "project", "setup-cfg", "setup-py", "cibuildwheel", "lock", "job")
"""What Bakery reads in a checkout; others are wheels, indexes and what it wrote itself."""

PRINTED = 25
"""One recipe in so many is planned, and the plan shown to buildx."""


@pytest.mark.proof
def test_the_runner_sees_what_no_reader_may_do(tmp_path: Path) -> None:
    expected = {
        "raise": "KeyError",
        "spin": "more than 5 s",
        "take": "MemoryError",
        "grow": "more than 300 MB",
        "die": "exit status -9",
        "say": "AssertionError: an error without a message",
        "fine": "",
    }
    for name in expected:
        (tmp_path / name).write_text(name)
    tally = read_files([("trap", tmp_path / name) for name in expected])
    assert {data.decode(): cause for cause, data in tally.crashes.items()} == {k: v for k, v in expected.items() if v}
    assert tally.outcomes == Counter(crash=len(expected) - 1, fine=1)
    assert tally.slowest >= 5
    assert tally.peak > 300


@pytest.mark.proof
def test_inputs_are_the_same_for_the_same_seed_and_end_in_every_way() -> None:
    for name, target in TARGETS.items():
        assert [target.made(1, number) for number in range(20)] == [target.made(1, number) for number in range(20)], (
            name
        )
    kinds = set(read_made(["wheel", "recipe", "lock", "provenance", "job", "mlir", "vmfb"], 1, 420).outcomes)
    assert {"ok", "findings", "plan", "RecipeError", "fits", "LockError", "UnavailableError", "functions"} <= kinds
    assert {"ModuleError", "AuditError", "right"} <= kinds


def read_thousands(target: str, part: int) -> None:
    count = COUNTS.get(target, OTHERS) // PARTS
    tally = read_made([target], 0, count, part * count)
    print(f"{target}, part {part + 1} of {PARTS}: {tally}")
    assert tally.inputs == count
    assert tally.times == {}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("target", OF_PROJECTS)
@pytest.mark.proof
def test_thousands_of_projects(target: str, part: int) -> None:
    read_thousands(target, part)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("target", [target for target in TARGETS if target not in OF_PROJECTS])
@pytest.mark.proof
def test_thousands_of_wheels_and_records(target: str, part: int) -> None:
    read_thousands(target, part)


@pytest.mark.proof
def test_plans_of_hostile_recipes_are_what_buildx_reads(tmp_path: Path, buildx: Buildx) -> None:
    tally = read_made(["recipe"], 0, COUNTS["recipe"] // PARTS)
    planned = [number for number, kind in enumerate(tally.kinds) if kind == "plan"]
    assert planned
    for number in planned[:: max(1, len(planned) * PRINTED // len(tally.kinds))]:
        plan = plans_of(tmp_path, TARGETS["recipe"].made(0, number))[0]
        # buildx reads a secret's file while it reads the bake file, and platforms of variables are one text.
        buildx.assert_prints(plan, variables={secret.holder: "" for secret in plan.secrets if secret.holder})
