"""A sample of many parameters: ``make check`` tests it, and ``make proof`` the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], every: int) -> list[Any]:
    """Return parameters of which all but every ``every``-th, beginning with the first, are marked ``proof``.

    Args:
        values: single values, or a tuple of values for each test.
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=[pytest.mark.proof] * bool(number % every)
        )
        for number, value in enumerate(values)
    ]
