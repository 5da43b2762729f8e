"""Whatever a recipe and ``--set`` say: a plan that buildx reads as bakery does, or one clean error, soon and in bounds."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import fuzz
import pytest
from buildx import Buildx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bakery.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
RECIPES = 20_000
SLOWEST_S = 5
LARGEST_MB = 300
PRINTED = 100
"""One plan in so many is shown to buildx."""

_WORKER = """\
import faulthandler, pathlib, resource, sys, time
import fuzz
from bakery.plan import Plan
folder, first, last, limit = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:])
for seed in range(first, last):
    print("seed", seed, flush=True)
    began = time.process_time()
    # The limit holds inside of C code, too; a machine may be busy, so the clock of the wall is generous.
    faulthandler.dump_traceback_later(20 * limit, exit=True)
    *_, result = fuzz.once(folder, seed)
    faulthandler.cancel_dump_traceback_later()
    assert time.process_time() - began < limit, "too slow"
    print("is", type(result).__name__, flush=True)
print("MB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_any_recipe_has_a_plan_or_one_clean_error(tmp_path_factory: pytest.TempPathFactory, rng: random.Random) -> None:
    fuzz.attempt(tmp_path_factory.getbasetemp(), fuzz.document(rng), fuzz.sets(rng))


def test_some_are_planned_and_others_not(tmp_path: Path) -> None:
    kinds = Counter(type(fuzz.once(tmp_path, seed)[2]).__name__ for seed in range(200))
    assert kinds["Plan"] > 10
    assert {"RecipeError", "UsageError", "PlanError"} <= set(kinds)


@pytest.mark.parametrize("share", range(8))
@pytest.mark.proof
def test_20_000_recipes(tmp_path: Path, share: int, buildx: Buildx) -> None:
    part = RECIPES // 8
    paths = [str(ROOT), str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, "-c", _WORKER, str(tmp_path), *map(str, (share * part, (share + 1) * part, SLOWEST_S))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]}\n{done.stderr[-4000:]}"
    assert int(lines[-1].split()[1]) < LARGEST_MB
    results = [line.split()[1] for line in lines if line.startswith("is ")]
    assert len(results) == part
    planned = [share * part + index for index, kind in enumerate(results) if kind == "Plan"]
    for seed in planned[:: max(1, len(planned) * PRINTED // len(results))]:
        plan = fuzz.once(tmp_path, seed)[2]
        assert isinstance(plan, Plan)
        _assert_printed(buildx, plan)


def _assert_printed(buildx: Buildx, plan: Plan) -> None:
    # buildx reads a secret's file while it reads the bake file, and platforms of variables are one text.
    variables = {secret.holder: "" for secret in plan.secrets if secret.holder}
    buildx.assert_prints(plan, variables=variables)
