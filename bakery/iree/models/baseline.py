"""The baseline: measurements of an earlier run that later runs are compared with."""

from __future__ import annotations

from typing import Literal

from bakery.iree.models.module import BenchmarkRecord
from bakery.recipe.models.base import Model
from bakery.recipe.models.text import Line


class Measured(Model):
    """The measurement of one module."""

    module: Line
    """The file name without ``.vmfb``: the name and the target."""
    record: BenchmarkRecord
    """The measured values."""


class Baseline(Model):
    """All measurements of one run, as ``wheel-bakery benchmark --save-baseline`` writes them."""

    version: Literal[1]
    """The version of the file format: 1."""
    benchmarks: tuple[Measured, ...]
    """One measurement for each module that ran."""
