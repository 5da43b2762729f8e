"""What all models share: frozen, no unknown keys, kebab-case in files, ``None`` means unset."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def _kebab(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


class Model(BaseModel):
    """Base of every part of a recipe.

    Files write keys in kebab-case (``system-packages``); Python code writes field names.
    A field that is ``None`` was not set: `bakery.resolve.defaults` decides what it then means.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=_kebab,
        populate_by_name=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )
