"""Cells as the matrix of a job of GitHub Actions."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bakery.core.names import SYSTEMS
from bakery.plan.model import Plan
from bakery.plan.shards import CellGroup, job_groups
from bakery.toolchains.facts import runners


def to_json(plans: Sequence[Plan], only: tuple[str, ...]) -> str:
    """Return ``{"include": […]}`` on one line, for ``fromJSON``; each entry is one job.

    Its ``cells`` are separated by spaces, as BAKERY_ONLY takes them.
    """
    groups = job_groups([part for plan in plans for part in _systems(plan, only)])
    return json.dumps({"include": [_job(group) for group in groups]})


def _systems(plan: Plan, only: tuple[str, ...]) -> list[Plan]:
    """Return the plan of each system with selected cells; if there is none, the error is about Linux."""
    parts = [plan.for_system(system) for system in SYSTEMS]
    selected = [part for part in parts if part.cells and part.matches(only)]
    return [part.filter_by_pattern(only) for part in selected or parts[:1]]


def _job(group: CellGroup) -> dict[str, str]:
    return {
        "recipe": group.plan.recipe,
        "job": group.name,
        "runner": runners()[group.platform],
        "cells": " ".join(cell.id for cell in group.cells),
    }
