"""A workspace: several recipes in one repository."""

from __future__ import annotations

from pydantic import Field

from bakery.models.base import Model
from bakery.models.ci import Ci
from bakery.models.text import Line


class Workspace(Model):
    """Several recipes in one repository; commands then work on all of them, or on the one that is named."""

    recipes: tuple[Line, ...] = Field(min_length=1, examples=[["examples/cuda", "ujson"]])
    """Folders that hold a recipe, relative to this file, or names of shipped recipes."""
    ci: Ci | None = None
    """Workflows for the recipes that have no such table of their own."""
