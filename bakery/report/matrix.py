"""Cells as the matrix of a GitHub Actions job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from bakery.parcels import Parcel, parcels
from bakery.plan import Plan

RUNNERS = {"linux/amd64": "ubuntu-24.04", "linux/arm64": "ubuntu-24.04-arm"}
"""GitHub's own runners by platform: none emulates."""


def to_json(plans: Sequence[Plan], only: tuple[str, ...]) -> str:
    """Return ``{"include": […]}`` on one line, for ``fromJSON``; each entry is one job.

    Its ``cells`` are separated by spaces, as BAKERY_ONLY takes them.
    """
    made = parcels([plan.chosen(only) for plan in plans])
    return json.dumps({"include": [entry(parcel, RUNNERS) for parcel in made]})


def entry(parcel: Parcel, runners: Mapping[str, str]) -> dict[str, str]:
    """Return one job of a matrix."""
    return {
        "recipe": parcel.plan.recipe,
        "job": parcel.name,
        "runner": runners[parcel.platform],
        "cells": " ".join(cell.id for cell in parcel.cells),
    }
