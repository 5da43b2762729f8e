"""``wheel-bakery schema``: the JSON schemas, for editors."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from bakery.cli.console import out


class Document(StrEnum):
    """What has a schema."""

    RECIPE = "recipe"
    LOCK = "lock"
    JOB = "job"
    MODULE = "module"


def schema(what: Annotated[Document, typer.Argument(help="What it is of.")] = Document.RECIPE) -> None:
    """Print the JSON schema of a recipe, a lock, a job or a module's record, for editors and other tools.

    [dim]wheel-bakery schema job > job.schema.json[/dim]
    """
    from bakery.cli.json_schema import schema_text

    out.print(schema_text(what).rstrip("\n"), markup=False, soft_wrap=True)
