"""``bakery schema``: the recipe's JSON schema, for editors."""

from __future__ import annotations

import json as _json

import typer

from bakery.cli.console import out


def schema() -> None:
    """Print the JSON schema of a recipe, for editors and other tools.

    [dim]bakery schema > recipe.schema.json[/dim]
    """
    from bakery.schema import recipe_schema

    out.print(_json.dumps(recipe_schema(), indent=2), markup=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(schema)
