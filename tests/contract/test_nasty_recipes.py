"""Whatever text a recipe holds, buildx and BuildKit read of the files what the plan says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from buildx import Buildx, offline
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from nasty import lines, overrides, recipes

from bakery.core.errors import PlanError
from bakery.emit.dockerfile import dockerfile
from bakery.emit.quoting import dockerfile_string, shell_word
from bakery.plan.dockerfile import Arg
from bakery.plan.model import Plan
from bakery.plan.values import Ref, literal
from bakery.recipe.load import from_python
from bakery.recipe.models import Recipe
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import parse_set_options
from bakery.toolchains import program_mounts

QUICK = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
PROOF = settings(QUICK, max_examples=500)


def planned(recipe: Recipe, sets: list[str]) -> Plan:
    try:
        return resolve(from_python(recipe, Path.cwd()), parse_set_options(sets))
    except PlanError as error:
        # Values may read the same in ids, and those of a cell may not fit, or make no name of them; all others have a plan.
        if any(
            words in error.message
            for words in ("same id", "the value of a variable is not valid", "is not valid with the values")
        ):
            reject()
        raise


@QUICK
@given(recipes(), st.lists(overrides, max_size=3))
def test_print_says_what_the_plan_says(buildx: Buildx, recipe: Recipe, sets: list[str]) -> None:
    buildx.assert_prints(planned(recipe, sets))


@pytest.mark.proof
@PROOF
@given(recipes(), st.lists(overrides, max_size=3))
def test_print_says_what_500_plans_say(buildx: Buildx, recipe: Recipe, sets: list[str]) -> None:
    buildx.assert_prints(planned(recipe, sets))


@settings(QUICK, max_examples=3)
@given(recipes())
def test_frontend_reads_what_the_plan_says(buildx: Buildx, recipe: Recipe) -> None:
    assert_understood(buildx, planned(recipe, []))


@pytest.mark.proof
@settings(PROOF, max_examples=200)
@given(recipes())
def test_frontend_reads_what_200_plans_say(buildx: Buildx, recipe: Recipe) -> None:
    assert_understood(buildx, planned(recipe, []))


def assert_understood(buildx: Buildx, plan: Plan) -> None:
    text = dockerfile(offline(plan))
    found = [item["name"] for item in buildx.frontend(text, "targets")["targets"]]
    assert found == [program_mounts.CONTEXT, program_mounts.STAGE, *(stage.name for stage in plan.stages)]
    values = plan.args_of(plan.cells[0])
    for stage_name in {plan.stage_of(kind, cell) for kind in plan.kinds for cell in plan.cells}:
        outline = buildx.frontend(text, "outline", stage_name)
        found = {item["name"]: item.get("value", "") for item in outline["args"]}
        assert found.items() >= {name: values[name] for name in found if name in values}.items()
        own = next(stage for stage in plan.stages if stage.name == stage_name)
        assert {step.name for step in own.steps if isinstance(step, Arg)} <= set(found)


@settings(QUICK, max_examples=5)
@given(st.lists(lines, min_size=1, max_size=30))
def test_frontend_reads_argument_defaults(buildx: Buildx, values: list[str]) -> None:
    declared = [f"ARG A{index}={dockerfile_string(literal(value))}" for index, value in enumerate(values)]
    outline = buildx.frontend("\n".join(["FROM scratch AS one", *declared, ""]), "outline")
    assert [item.get("value", "") for item in outline["args"]] == values


@settings(QUICK, max_examples=100)
@given(st.lists(st.tuples(lines, lines, st.booleans()), min_size=1, max_size=20))
def test_words_reach_programs_as_they_are(parts: list[tuple[str, str, bool]]) -> None:
    words = [(before, Ref("VALUE"), after) if refers else (before, after) for before, after, refers in parts]
    value = "$(id) `id` \"q\" 'r' \\ * ${VALUE}"
    script = "printf '%s\\0' " + " ".join(map(shell_word, words))
    done = subprocess.run(["sh", "-c", script], env={"VALUE": value}, capture_output=True, check=True)
    wanted = ["".join(value if isinstance(part, Ref) else part for part in word) for word in words]
    assert done.stdout.decode().split("\0")[:-1] == wanted
