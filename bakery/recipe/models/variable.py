"""Variables of a recipe, which ``--set NAME=VALUE`` sets."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import field_validator, model_validator

from bakery.core.regex import compile_linear, matches_whole
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import Line


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
