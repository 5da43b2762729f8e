"""The workspace: several recipes in one repository."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.ci import Ci
from bakery.recipe.models.text import Line, WorkflowLine, distinct


class Workspace(Model):
    """Several recipes in one repository. Commands work on all of them, or on the one that you name."""

    recipes: Annotated[tuple[Line, ...], Field(min_length=1, max_length=1000)] | None = Field(
        default=None, examples=[["examples/cuda", "ujson"]]
    )
    """Folders with a recipe, relative to this file, or names of shipped recipes."""
    jobs: Annotated[tuple[WorkflowLine, ...], Field(min_length=1, max_length=1000), AfterValidator(distinct)] | None = (
        Field(default=None, examples=[["models/job.json"]])
    )
    """IREE job files, relative to this file. The workflow of ``[workspace.ci]`` compiles, validates and benchmarks
    their modules."""
    ci: Ci | None = None
    """Workflows for the recipes without a ``[ci]`` table, and one workflow for the jobs."""

    @model_validator(mode="after")
    def _not_empty(self) -> Workspace:
        if self.recipes is None and self.jobs is None:
            raise invalid("expected recipes, or jobs")
        return self
