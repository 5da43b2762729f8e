"""Jobs → a workflow for GitHub Actions: each target on a machine of its own is compiled, validated and measured."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from bakery.core.errors import PlanError
from bakery.core.names import MACHINES
from bakery.emit.quoting import comment
from bakery.emit.workflow_yaml import Expression, bakery_steps, document, flow, job_block, permissions, run, uses
from bakery.iree.plan import JobFile, ModuleCell
from bakery.plan.options import Ci

PATH = ".github/workflows/iree-modules.yml"
"""The workflow's file. Those of recipes begin with ``bakery-``."""

MOST = 256
"""Jobs that GitHub makes of one matrix."""

Images = Callable[[str, str, str], str]
"""A shipped recipe, the release of IREE and a machine → what its image is called."""

_IMAGES = Expression("${{ runner.temp }}/images.tar")
_FILE = '"$RUNNER_TEMP/images.tar"'
_MODULES, _FIGURES = "modules", "figures.json"
_CACHED = {"path": _IMAGES, "key": Expression("${{ matrix.images }}")}
_PLATFORMS = {machine: platform for platform, machine in MACHINES.items() if platform.startswith("linux/")}
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


def module_workflow(jobs: Sequence[JobFile], ci: Ci, images: Images) -> str:
    """Return the text of the workflow.

    Raises:
        PlanError: GitHub makes no run of that many jobs.
    """
    rows = [row for job in jobs for row in _rows(job, ci, images)]
    if len(rows) > MOST:
        raise PlanError(
            f"{len(rows)} targets of all jobs together, and GitHub makes at most {MOST} of one matrix",
            hint="leave a job out of [workspace] jobs",
        )
    source = ", ".join(job.path for job in jobs)
    # No release: it would take images from a cache that other runs wrote.
    return document(source, "the job", "IREE modules", replace(ci, tags=()), {}, [_modules(rows, ci)])


def _rows(job: JobFile, ci: Ci, images: Images) -> Iterator[dict[str, str]]:
    """Yield what differs from target to target."""
    cells: dict[str, list[ModuleCell]] = {}
    for cell in job.plan.cells:
        cells.setdefault(cell.target.slug, []).append(cell)
    for slug, mine in cells.items():
        target = mine[0].target
        machine = target.machine or "x86_64"
        # What looks into code for GPUs is in an image of its own.
        recipes = ["iree-cpu", *(["iree-cuda"] if target.backend in ("cuda", "vulkan") else [])]
        yield {
            "name": f"{_ODD.sub('-', job.path.removesuffix('.json'))}.{slug}",
            "runner": ci.runners[_PLATFORMS[machine]],
            "job": job.path,
            "cells": f"*.{slug}",
            "measured": "yes" if any(cell.is_measured for cell in mine) else "no",
            "images": " ".join(images(recipe, job.plan.compiler, machine) for recipe in recipes),
        }


def _modules(rows: Sequence[dict[str, str]], ci: Ci) -> list[str]:
    cells = {"JOB": Expression("${{ matrix.job }}"), "BAKERY_ONLY": Expression("${{ matrix.cells }}")}
    # Not in the checkout, whose files are nobody's results.
    output = f'--output "$RUNNER_TEMP/{_MODULES}"'
    cached = ci.cache != "none"
    steps = [
        *bakery_steps(ci),
        *(_fetch_images() if cached else []),
        run("Compile", f'wheel-bakery compile {output} --progress plain -- "$JOB"', cells),
        run("Validate", f'wheel-bakery validate {output} -- "$JOB"', cells),
        run(
            "Measure, and compare with the baselines that the job names",
            f'wheel-bakery benchmark {output} --save-baseline "$RUNNER_TEMP/{_FIGURES}" -- "$JOB"',
            cells,
            condition="matrix.measured == 'yes'",
        ),
        *(_keep_images() if cached else []),
        uses(
            "Keep the modules",
            "actions/upload-artifact",
            {
                "name": Expression("modules-${{ matrix.name }}"),
                "path": Expression(f"${{{{ runner.temp }}}}/{_MODULES}"),
                "if-no-files-found": "error",
                "overwrite": True,
            },
        ),
        uses(
            "Keep the figures, also of a regression",
            "actions/upload-artifact",
            {
                "name": Expression("figures-${{ matrix.name }}"),
                "path": Expression(f"${{{{ runner.temp }}}}/{_FIGURES}"),
                "if-no-files-found": "ignore",
                "overwrite": True,
            },
            condition="always() && matrix.measured == 'yes'",
        ),
    ]
    head = [
        "name: ${{ matrix.name }}",
        "runs-on: ${{ matrix.runner }}",
        f"timeout-minutes: {ci.timeout}",
        *permissions({"contents": "read"}),
        "strategy:",
        "  fail-fast: false",
        "  matrix:",
        "    # Each target on a machine of its own; modules for arm64 run on one that is.",
        "    include:",
        *(f"      - {flow(row)}" for row in rows),
    ]
    return job_block("modules", head, steps)


def _fetch_images() -> list[list[str]]:
    """Return the steps that load the images with IREE's tools, where an earlier run kept them."""
    cache = uses(
        "Fetch the images with IREE's tools",
        "actions/cache",
        _CACHED,
        name="images",
        sub="/restore",
    )
    note = comment("Their names hold digests of all that their recipes say. Bakery makes what is not there.")
    load = run("Load the images", f"docker load --input {_FILE}", condition="steps.images.outputs.cache-hit == 'true'")
    return [[*note, *cache], load]


def _keep_images() -> list[list[str]]:
    """Return the steps that keep the images where the cache lacks them; a pull request leaves nothing to other runs."""
    lacking = "github.event_name != 'pull_request' && steps.images.outputs.cache-hit != 'true'"
    save = run(
        "Save the images for other runs",
        f'read -ra images <<< "$IMAGES"\ndocker save --output {_FILE} "${{images[@]}}"',
        {"IMAGES": Expression("${{ matrix.images }}")},
        condition=lacking,
    )
    return [save, uses("Keep the images", "actions/cache", _CACHED, condition=lacking, sub="/save")]
