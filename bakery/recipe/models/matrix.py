"""Variables, and the matrix: the axes, and which of their combinations are cells."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue

from bakery.core.text import compile_linear, matches_whole
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import AxisName, Line, PythonVersion, VariableName, distinct


class Variable(Model):
    """A value that can be changed without editing the recipe. Short form: ``CUDA_VERSION = "13.0.2"``."""

    short_form: ClassVar[str | None] = "string"

    default: Line
    """The value that is used unless another one is set."""
    description: Line | None = None
    """A description of the variable."""
    pattern: Line | None = None
    """A regular expression that the whole value must match. The syntax is RE2, because bake checks the value too."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"default": value} if isinstance(value, str) else value

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                compile_linear(value)
            except ValueError as error:
                raise invalid(
                    f"expected a regular expression (RE2): {error}",
                    "correct the expression, or put a backslash before literal characters; RE2, which bake uses, has no "
                    "look-around and no back references: list what is allowed with |",
                ) from None
        return value

    @model_validator(mode="after")
    def _default_fits(self) -> Variable:
        if self.pattern is not None and not matches_whole(self.pattern, self.default):
            raise invalid(f"the default does not match pattern {self.pattern!r}", "change the default or the pattern")
        return self


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


Changes = dict[str, JsonValue]
"""A part of a table of the recipe. `bakery.recipe.overrides` validates it together with the rest of the recipe."""


class Override(Model):
    """Settings for some cells. Of several overrides that match a cell, the last one has precedence."""

    TABLES: ClassVar = ("builder", "native", "wheel", "test")

    where: dict[AxisName, Line] = Field(examples=[{"cuda": "12.*", "platform": "linux/arm64"}])
    """Globs for the values of axes, such as ``{ cuda = "12.*" }``. The override applies to cells that match all of
    them. ``platform`` is an axis, too."""
    variables: dict[VariableName, Line] = Field(default={}, examples=[{"CUDA_ARCHS": "8.0;9.0"}])
    """The values of variables in these cells. The environment and ``--set`` take precedence."""
    builder: Changes = Field(default={}, examples=[{"base": "manylinux_2_34"}])
    """Keys of ``[builder]`` with other values in these cells. Their ``environment`` is added to the recipe's; every other
    key replaces the value of the recipe. ``compiler-cache`` and ``cross`` are the same for all cells."""
    native: Changes = Field(default={}, examples=[{"command": "sh native.sh --metal"}])
    """Keys of ``[native]`` with other values in these cells."""
    wheel: Changes = Field(default={}, examples=[{"abi3": "3.12"}])
    """Keys of ``[wheel]`` with other values in these cells. Their ``config-settings`` are added to the recipe's."""
    test: Changes = Field(default={}, examples=[{"requirements": ["pytest", "torch"]}])
    """Keys of ``[test]`` with other values in these cells."""

    @property
    def tables(self) -> dict[str, Changes]:
        """The tables that it changes."""
        tables: dict[str, Changes] = {name: getattr(self, name) for name in self.TABLES}
        return {name: table for name, table in tables.items() if table}


class Matrix(Model):
    """Axes and their values. Each combination is a cell.

    Every key except ``exclude``, ``include`` and ``overrides`` is an axis. An axis sets a variable:
    ``cuda = ["12.8.0", "13.0.2"]`` sets ``CUDA_VERSION`` to one of these values in each cell.
    """

    python: Pythons = Field(default=("3.11",), examples=[["3.11", "3.13"]])
    """The Python versions to build for."""
    axes: dict[FreeAxis, Values] = Field(default={}, examples=[{"cuda": ["12.8.0", "13.0.2"]}])
    """Other axes. In a file, write them directly under ``[matrix]``."""
    exclude: tuple[dict[AxisName, Line], ...] = Field(default=(), examples=[[{"python": "3.9", "cuda": "13.*"}]])
    """Combinations to leave out. Values are globs; all globs of an entry must match."""
    include: tuple[dict[AxisName, Line], ...] = ()
    """Combinations to add. If an entry omits an axis, the first value of the axis is used. A value that ``--set`` or the
    environment gives an axis replaces that of an entry, too."""
    overrides: tuple[Override, ...] = ()
    """Settings for some cells: variables, and keys of ``builder``, ``native``, ``wheel`` and ``test``."""

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
