"""Plan → a workflow for GitHub Actions; ``templates/wheels.yml.j2`` is its skeleton.

Cells are baked in jobs on machines of their platform. Then one job checks all wheels together, and further jobs attest
and publish them. Every job has the permissions that it needs and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.requirements import Requirement

from bakery.core.names import SYSTEMS, CacheBackend, Kind
from bakery.emit.workflow_yaml import Expression, render
from bakery.plan.model import Plan
from bakery.plan.options import Ci
from bakery.plan.shards import CellGroup, job_groups
from bakery.toolchains.disk_space import cached, disk
from bakery.toolchains.facts import cache_service, runner_disk

MARGIN = 15
"""Minutes between the end of bakery and the end of its job: time to keep what is finished."""


def workflow(plan: Plan, ci: Ci) -> str:
    """Return the text of the workflow.

    Raises:
        PlanError: the plan has text that GitHub would evaluate.
    """
    jobs = job_groups([plan], ci.max_jobs)
    others = job_groups([part for system in SYSTEMS[1:] if (part := plan.for_system(system)).cells], ci.max_jobs)
    secrets = [secret.env for secret in plan.secrets_for((Kind.WHEEL, Kind.TEST)) if secret.env]
    with_cibuildwheel = Requirement(ci.install)
    with_cibuildwheel.extras.add("cibuildwheel")
    return render(
        "emit/templates/wheels.yml.j2",
        source=plan.source_file,
        title=f"wheels of {plan.recipe}",
        recipe=plan.recipe,
        output=plan.output,
        ci=ci,
        margin=MARGIN,
        linux_jobs=_rows(jobs, ci),
        other_jobs=_rows(others, ci),
        has_other_systems=bool(plan.cibuildwheel_cells),
        secrets={name: Expression(f"${{{{ secrets.{name} }}}}") for name in secrets},
        # The workflow is committed, so it grants what the recipe needs: a pull request cannot ask for more.
        # It sets the layer cache itself.
        grants=[want for want in plan.required_grants if not want.startswith("cache=")],
        cache=ci.cache or _fitting_cache(plan),
        # Without GitHub's cache for layers, there is none for compilers, either.
        compiles=ci.cache != CacheBackend.NONE and Kind.COMPILER_CACHE in plan.kinds,
        frees_disk=_is_tight(ci, jobs) if ci.free_disk is None else ci.free_disk,
        has_local_versions=any(naming.local for naming in plan.audit.namings),
        cibuildwheel_requirement=str(with_cibuildwheel),
    )


def _rows(jobs: Sequence[CellGroup], ci: Ci) -> list[dict[str, str]]:
    return [
        {"job": job.name, "runner": ci.runners[job.platform], "cells": " ".join(cell.id for cell in job.cells)}
        for job in jobs
    ]


def _is_tight(ci: Ci, jobs: Iterable[CellGroup]) -> bool:
    """Return whether the layers of a job may not fit on its runner; only GitHub's own runners are considered."""
    return any(0 < runner_disk(ci.runners[job.platform]) <= disk(job) for job in jobs)


def _fitting_cache(plan: Plan) -> str:
    """Return the layer cache to use if the recipe names none."""
    size = cached(plan, cache_service("gha").packed) * 1000
    return (CacheBackend.GHA if size <= plan.cache.limit_mb else CacheBackend.NONE).value
