"""``wheel-bakery schema``: the JSON schemas, for editors."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from bakery.cli.console import echo


class Document(StrEnum):
    """The kinds of files with a schema."""

    RECIPE = "recipe"
    LOCK = "lock"
    JOB = "job"
    MODULE = "module"


def schema(what: Annotated[Document, typer.Argument(help="The kind of file.")] = Document.RECIPE) -> None:
    """Print the JSON schema of a recipe, a lock file, an IREE job or the record of a module.

    [dim]wheel-bakery schema job > job.schema.json[/dim]
    """
    from bakery.cli.json_schema import schema_text

    echo(schema_text(what).rstrip("\n"))
