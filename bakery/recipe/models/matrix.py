"""The matrix: the axes, and which of their combinations are cells."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator
from pydantic.json_schema import JsonSchemaValue

from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import AxisName, Line, PythonVersion, VariableName, distinct

OWN_KEYS = ("python", "axes", "exclude", "include", "overrides")
"""The keys of ``[matrix]`` that are not user-defined axes."""


def _no_platform(axis: str) -> str:
    if axis in ("platform", "platforms"):
        raise invalid(
            "platform is no axis of the matrix; write platforms = [...] at the top",
            'move the values there: platforms = ["linux/amd64"]',
        )
    return axis


Pythons = Annotated[tuple[PythonVersion, ...], AfterValidator(distinct)]
Values = Annotated[tuple[Line, ...], AfterValidator(distinct)]
FreeAxis = Annotated[AxisName, AfterValidator(_no_platform)]


class Override(Model):
    """Values of variables for some cells. The environment and ``--set`` take precedence."""

    where: dict[AxisName, Line]
    """Globs for the values of axes, such as ``{ cuda = "12.*" }``. The override applies to cells that match all of
    them."""
    variables: dict[VariableName, Line]
    """The values of variables in these cells."""


class Matrix(Model):
    """Axes and their values. Each combination is a cell.

    Every key except ``exclude``, ``include`` and ``overrides`` is an axis. An axis sets a variable:
    ``cuda = ["12.8.0", "13.0.2"]`` sets ``CUDA_VERSION`` to one of these values in each cell.
    """

    python: Pythons | None = Field(default=None, examples=[["3.11", "3.13"]])
    """The Python versions to build for."""
    axes: dict[FreeAxis, Values] | None = Field(default=None, examples=[{"cuda": ["12.8.0", "13.0.2"]}])
    """Other axes. In a file, write them directly under ``[matrix]``."""
    exclude: tuple[dict[AxisName, Line], ...] | None = Field(
        default=None, examples=[[{"python": "3.9", "cuda": "13.*"}]]
    )
    """Combinations to leave out. Values are globs; all globs of an entry must match."""
    include: tuple[dict[AxisName, Line], ...] | None = None
    """Combinations to add. If an entry omits an axis, the first value of the axis is used."""
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
        """Allow user-defined axes directly under ``[matrix]``."""
        for pattern, values in table["properties"]["axes"].get("patternProperties", {}).items():
            table["propertyNames"] = {"pattern": pattern}
            table["additionalProperties"] = values
