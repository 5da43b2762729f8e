"""The matrix: which cells exist."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator, model_validator

from bakery.models.base import Model
from bakery.models.text import AxisName, Line, PythonVersion, VariableName

_OWN_KEYS = ("python", "axes", "exclude", "include", "overrides")


class Override(Model):
    """Values of variables for the cells that a glob selects."""

    cells: Line
    """A glob over cell ids, such as ``cp313-*``."""
    variables: dict[VariableName, Line]
    """Variables and the values they have in these cells."""


class Matrix(Model):
    """Axes and their values; each combination is a cell.

    Any key other than ``exclude``, ``include`` and ``overrides`` is an axis:
    ``cuda = ["12.8.0", "13.0.2"]`` sets variable CUDA_VERSION in turn.
    """

    python: tuple[PythonVersion, ...] | None = Field(default=None, examples=[["3.11", "3.13"]])
    """The Python versions to build for."""
    axes: dict[AxisName, tuple[Line, ...]] | None = Field(default=None, examples=[{"cuda": ["12.8.0", "13.0.2"]}])
    """Further axes; in a file they stand directly under ``[matrix]``."""
    exclude: tuple[dict[AxisName, Line], ...] | None = Field(
        default=None, examples=[[{"python": "3.9", "cuda": "13.*"}]]
    )
    """Combinations to leave out; values are globs, all of an entry's must match."""
    include: tuple[dict[AxisName, Line], ...] | None = None
    """Combinations to add; an axis that an entry leaves out takes its first value."""
    overrides: tuple[Override, ...] | None = None
    """Values of variables for some cells."""

    @model_validator(mode="before")
    @classmethod
    def _free_axes(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        free = {key: item for key, item in value.items() if key not in _OWN_KEYS}
        if not free:
            return value
        rest = {key: item for key, item in value.items() if key in _OWN_KEYS}
        given = rest.get("axes")
        return {**rest, "axes": {**given, **free} if isinstance(given, dict) else free}

    @field_validator("python")
    @classmethod
    def _some_python(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None:
            _distinct(value)
        return value

    @field_validator("axes")
    @classmethod
    def _some_values(cls, value: dict[str, tuple[str, ...]] | None) -> dict[str, tuple[str, ...]] | None:
        for axis, values in (value or {}).items():
            if axis == "platform":
                raise ValueError("platform is no axis of the matrix; write platforms = [...] at the top")
            _distinct(values)
        return value


def _distinct(values: tuple[str, ...]) -> None:
    if not values:
        raise ValueError("expected at least one value")
    twice = sorted({item for item in values if values.count(item) > 1})
    if twice:
        raise ValueError(f"expected distinct values, got {', '.join(map(repr, twice))} twice")
