"""A baseline: what an earlier run measured, for later ones to compare with."""

from __future__ import annotations

from typing import Literal

from bakery.iree.models.module import BenchmarkRecord
from bakery.recipe.models.base import Model
from bakery.recipe.models.text import Line


class Measured(Model):
    """What was measured of one module."""

    module: Line
    """Its file's name without ``.vmfb``: the name and the target."""
    record: BenchmarkRecord
    """The figures."""


class Baseline(Model):
    """All that one run measured, as ``bakery benchmark --save-baseline`` writes it."""

    version: Literal[1]
    """The version of this file's format: 1."""
    benchmarks: tuple[Measured, ...]
    """One for each module that ran."""
