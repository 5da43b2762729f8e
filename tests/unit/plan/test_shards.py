"""Cells in jobs and shards: what compiles once stays together, sizes are even, nothing is lost."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import plans
import pytest

from bakery import Builder, Matrix, Recipe, Wheel
from bakery.core.errors import UsageError
from bakery.plan.model import Plan
from bakery.plan.shards import MOST_JOBS, job_groups, select_shard
from bakery.plan.stage_digests import Lineage
from bakery.recipe.models import Native
from bakery.resolve.asking import again

PYTHONS = ("3.9", "3.11", "3.13")
BOTH = ("linux/amd64", "linux/arm64")


@cache
def plan(name: str = "demo", *, values: int = 2, native: bool = False, abi3: str | None = None) -> Plan:
    recipe = Recipe(
        name=name,
        platforms=BOTH,
        matrix=Matrix(python=PYTHONS, axes={"flavour": tuple(f"v{number}" for number in range(values))}),
        builder=Builder(environment={"FLAVOUR": "${FLAVOUR}"}),
        native=Native(command="make", into="lib", environment={"FLAVOUR": "${FLAVOUR}"}) if native else None,
        wheel=Wheel(abi3=abi3),
    )
    return plans.planned(recipe, Path("/nowhere"))


def ids(cells: object) -> list[str]:
    return [cell.id for cell in cells]  # type: ignore[attr-defined]


def test_300_cells_are_at_most_256_jobs_of_one_platform_each() -> None:
    made = plan(values=50)
    assert len(made.cells) == 300
    jobs = job_groups([made])
    assert len(jobs) <= MOST_JOBS
    assert sorted(cell for job in jobs for cell in ids(job.cells)) == sorted(ids(made.cells))
    assert {len({cell.platform for cell in job.cells}) for job in jobs} == {1}
    assert max(len(job.cells) for job in jobs) == 2
    assert len({job.name for job in jobs}) == len(jobs)


def test_neighbours_in_a_full_job_share_the_most() -> None:
    made = plan(values=48)
    lineage = Lineage(made)
    for job in job_groups([made], 48):
        first, *others = (set(lineage.of(cell).values()) for cell in job.cells)
        # The same Python at least: base and builder tools are made once in the job.
        assert all(len(first & other) >= 3 for other in others)


def test_cells_that_share_a_compile_are_one_job() -> None:
    jobs = job_groups([plan(native=True)])
    assert len(jobs) == 4
    assert {tuple(sorted({cell.axes["python"] for cell in job.cells})) for job in jobs} == {tuple(sorted(PYTHONS))}
    assert all(len({cell.axes["flavour"] for cell in job.cells}) == 1 for job in jobs)


@pytest.mark.parametrize("name", ["native", "compile"])
def test_cells_share_the_second_run_of_a_compile_exactly_if_they_share_the_first(name: str) -> None:
    made = plan(native=True)
    lineage = Lineage(made)
    digests = [(lineage.of(cell)[name], lineage.of(cell)[again(name)]) for cell in made.cells]
    both = len(set(digests))
    assert both == len({first for first, _ in digests}) == len({second for _, second in digests})
    assert both == (4 if name == "native" else 12)


def test_a_shared_wheel_and_its_tests_are_one_job() -> None:
    jobs = job_groups([plan(abi3="3.11")])
    for job in jobs:
        assert {cell.built_by for cell in job.cells} <= set(ids(job.cells))
    assert sorted(len(job.cells) for job in jobs) == [1] * 4 + [2] * 4


@pytest.mark.parametrize("of", [1, 2, 5, 11, 30])
def test_shards_are_even_and_lose_nothing(of: int) -> None:
    plans = [plan(), plan("other", values=1)]

    def shard(number: int) -> list[str]:
        return [f"{part.plan.recipe}/{cell}" for part in select_shard(plans, number, of) for cell in ids(part.cells)]

    shards = [shard(number) for number in range(1, of + 1)]
    assert sorted(cell for part in shards for cell in part) == sorted(
        f"{item.recipe}/{cell.id}" for item in plans for cell in item.cells
    )
    sizes = sorted(map(len, shards))
    assert sizes[-1] - sizes[0] <= 1
    assert shard(of) == shards[-1]


def test_shards_never_split_a_compile() -> None:
    made = plan(native=True)
    parts = [part for number in range(1, 9) for part in select_shard([made], number, 8)]
    assert [len(part.cells) for part in parts] == [3, 3, 3, 3]


def test_more_kinds_than_jobs_is_said() -> None:
    with pytest.raises(UsageError, match="2 jobs are needed"):
        job_groups([plan()], 1)
