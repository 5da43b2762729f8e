"""The matrix: which cells exist."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator
from pydantic.json_schema import JsonSchemaValue

from bakery.recipe.models.base import Model
from bakery.recipe.models.text import AxisName, Line, PythonVersion, VariableName, distinct

OWN_KEYS = ("python", "axes", "exclude", "include", "overrides")
"""The keys of ``[matrix]`` that are no free axes."""


def _no_platform(axis: str) -> str:
    if axis in ("platform", "platforms"):
        raise ValueError("platform is no axis of the matrix; write platforms = [...] at the top")
    return axis


Pythons = Annotated[tuple[PythonVersion, ...], AfterValidator(distinct)]
Values = Annotated[tuple[Line, ...], AfterValidator(distinct)]
FreeAxis = Annotated[AxisName, AfterValidator(_no_platform)]


class Override(Model):
    """Values of variables for some cells; what the environment or ``--set`` says of a variable comes before it."""

    where: dict[AxisName, Line]
    """Axes and globs over their values; a cell is meant when all of them match: ``{ cuda = "12.*" }``."""
    variables: dict[VariableName, Line]
    """Variables and the values they have in these cells."""


class Matrix(Model):
    """Axes and their values; each combination is a cell.

    Any key other than ``exclude``, ``include`` and ``overrides`` is an axis:
    ``cuda = ["12.8.0", "13.0.2"]`` sets variable CUDA_VERSION in turn.
    """

    python: Pythons | None = Field(default=None, examples=[["3.11", "3.13"]])
    """The Python versions to build for."""
    axes: dict[FreeAxis, Values] | None = Field(default=None, examples=[{"cuda": ["12.8.0", "13.0.2"]}])
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
        free = {key: item for key, item in value.items() if key not in OWN_KEYS}
        if not free:
            return value
        rest = {key: item for key, item in value.items() if key in OWN_KEYS}
        given = rest.get("axes")
        return {**rest, "axes": {**given, **free} if isinstance(given, dict) else free}

    @classmethod
    def shape_schema(cls, table: JsonSchemaValue) -> None:
        """Free axes stand directly under ``[matrix]``."""
        for pattern, values in table["properties"]["axes"].get("patternProperties", {}).items():
            table["propertyNames"] = {"pattern": pattern}
            table["additionalProperties"] = values
