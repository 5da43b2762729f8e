"""``bakery schema``: the recipe's JSON schema, for editors."""

from __future__ import annotations

import typer

from bakery.cli.console import out


def schema() -> None:
    """Print the JSON schema of a recipe, for editors and other tools.

    [dim]bakery schema > recipe.schema.json[/dim]
    """
    from bakery.schema import schema_text

    out.print(schema_text().rstrip("\n"), markup=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(schema)
