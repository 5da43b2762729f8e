"""Jobs → a workflow for GitHub Actions, which compiles, validates and measures each target on a machine of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from bakery.core.errors import PlanError
from bakery.core.names import MACHINES
from bakery.emit.workflow_yaml import render
from bakery.iree.plan import JobFile, ModuleCell
from bakery.plan.options import Ci

PATH = ".github/workflows/iree-modules.yml"
"""The file of the workflow. Workflows of recipes start with ``bakery-``."""

MOST = 256
"""Limit of GitHub: jobs of one matrix."""

Images = Callable[[str, str, str], str]
"""A shipped recipe, the release of IREE and a machine → what its image is called."""

_PLATFORMS = {machine: platform for platform, machine in MACHINES.items() if platform.startswith("linux/")}
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


def module_workflow(jobs: Sequence[JobFile], ci: Ci, images: Images) -> str:
    """Return the text of the workflow.

    Raises:
        PlanError: there are more targets than GitHub runs jobs, or a job has text that GitHub would evaluate.
    """
    rows = [row for job in jobs for row in _rows(job, ci, images)]
    if len(rows) > MOST:
        raise PlanError(
            f"the jobs have {len(rows)} targets, and GitHub runs at most {MOST} jobs of one matrix",
            hint="remove a job from [workspace] jobs",
        )
    return render("iree/templates/modules.yml.j2", source=", ".join(job.path for job in jobs), ci=ci, rows=rows)


def _rows(job: JobFile, ci: Ci, images: Images) -> Iterator[dict[str, str]]:
    """Yield one row of the matrix for each target."""
    cells: dict[str, list[ModuleCell]] = {}
    for cell in job.plan.cells:
        cells.setdefault(cell.target.slug, []).append(cell)
    for slug, cells_of_target in cells.items():
        target = cells_of_target[0].target
        machine = target.machine or "x86_64"
        # The tools that inspect GPU code are in an image of their own.
        recipes = ["iree-cpu", *(["iree-cuda"] if target.backend in ("cuda", "vulkan") else [])]
        yield {
            "name": f"{_ODD.sub('-', job.path.removesuffix('.json'))}.{slug}",
            "runner": ci.runners[_PLATFORMS[machine]],
            "job": job.path,
            "cells": f"*.{slug}",
            "measured": "yes" if any(cell.is_measured for cell in cells_of_target) else "no",
            "images": " ".join(images(recipe, job.plan.compiler, machine) for recipe in recipes),
        }
