"""The base class of all models: frozen, no unknown keys, kebab-case in files, and defaults on the fields."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

INVALID = "invalid_value"
"""The type of errors of `invalid`."""


def invalid(message: str, hint: str = "", *, got: str = "", quotes_value: bool = False) -> PydanticCustomError:
    """Return the error of a validator.

    Args:
        message: what was expected; it must not quote the value, which may be a secret.
        hint: what to do; empty for general advice.
        got: what was found, if the value itself is not clear enough.
        quotes_value: ``got`` has a part of the value, so it is not shown if the value may be a secret.
    """
    template = "{message}, got {got}" if got else "{message}"
    return PydanticCustomError(
        INVALID, template, {"message": message, "hint": hint, "got": got, "quotes_value": quotes_value}
    )


def _kebab(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _markdown(text: str) -> str:
    # Editors show Markdown and wrap lines themselves.
    return " ".join(text.split()).replace("``", "`")


class Model(BaseModel):
    """Base class of every part of a recipe.

    Files use keys in kebab-case (``system-packages``); Python code uses field names (``system_packages``).
    A field that a recipe does not set has its default; ``None`` stands for no value.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=_kebab,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    short_form: ClassVar[str | None] = None
    """The JSON type that may replace the whole table: ``string`` allows ``base = "debian"``."""

    @classmethod
    @cache
    def descriptions(cls) -> dict[str, str]:
        """Return key → the text below its field. Pydantic's use_attribute_docstrings would read all files in every command."""
        descriptions: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            if issubclass(base, Model) and base is not Model:
                (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
                assert isinstance(tree, ast.ClassDef)
                for item, after in pairwise(tree.body):
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                        text = after.value if isinstance(after, ast.Expr) else None
                        if isinstance(text, ast.Constant) and isinstance(text.value, str):
                            descriptions[item.target.id] = inspect.cleandoc(text.value)
        return {
            field.alias or name: descriptions[name] for name, field in cls.model_fields.items() if name in descriptions
        }

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        table = handler.resolve_ref_schema(handler(schema))
        table["description"] = _markdown((cls.__doc__ or "").split("\n\n")[0])
        for key, text in cls.descriptions().items():
            table["properties"][key]["description"] = _markdown(text)
        cls.shape_schema(table)
        if cls.short_form is None:
            return table
        about: JsonSchemaValue = {key: table.pop(key) for key in ("title", "description")}
        return about | {"anyOf": [{"type": cls.short_form} | cls.short_values(), table]}

    @classmethod
    def short_values(cls) -> JsonSchemaValue:
        """Return what the JSON schema says of the short form besides its type."""
        return {}

    @classmethod
    def shape_schema(cls, table: JsonSchemaValue) -> None:
        """Adjust the JSON schema where the file format differs from the model's fields."""
