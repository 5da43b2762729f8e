"""Where finished wheels are published."""

from __future__ import annotations

from pydantic import field_validator

from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import WorkflowLine, no_device


class Output(Model):
    """Where finished wheels are published."""

    directory: WorkflowLine | None = None
    """The folder for wheels that passed the audit, relative to the project."""

    @field_validator("directory")
    @classmethod
    def _inside(cls, value: str | None) -> str | None:
        if value is not None and (not value or value.startswith(("~", "-")) or ".." in value.split("/")):
            raise invalid("expected a folder, such as 'dist'", "name a folder below the project, or an absolute path")
        for part in (value or "").split("/"):
            no_device(part)
        return value
