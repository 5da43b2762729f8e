"""Cells as the matrix of a GitHub Actions job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from bakery.core.names import SYSTEMS
from bakery.plan.model import Plan
from bakery.plan.shards import CellGroup, job_groups
from bakery.toolchains.facts import runners


def to_json(plans: Sequence[Plan], only: tuple[str, ...]) -> str:
    """Return ``{"include": […]}`` on one line, for ``fromJSON``; each entry is one job.

    Its ``cells`` are separated by spaces, as BAKERY_ONLY takes them.
    """
    made = job_groups([part for plan in plans for part in _systems(plan, only)])
    return json.dumps({"include": [entry(group, runners()) for group in made]})


def _systems(plan: Plan, only: tuple[str, ...]) -> list[Plan]:
    """Return the plan of each system that has chosen cells; an error tells of Linux where none has."""
    parts = [plan.for_system(system) for system in SYSTEMS]
    meant = [part for part in parts if part.cells and part.matches(only)]
    return [part.filter_by_pattern(only) for part in meant or parts[:1]]


def entry(group: CellGroup, labels: Mapping[str, str]) -> dict[str, str]:
    """Return one job of a matrix."""
    return {
        "recipe": group.plan.recipe,
        "job": group.name,
        "runner": labels[group.platform],
        "cells": " ".join(cell.id for cell in group.cells),
    }
