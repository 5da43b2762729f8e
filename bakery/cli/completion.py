"""What shells complete: recipes, cells and variables of the recipe in the working folder. Nothing is printed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bakery.core.errors import BakeryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bakery.recipe.load import Loaded


def recipes(incomplete: str) -> list[str]:
    """Return the names of the recipes that ``--recipe`` takes. Paths are completed by the shell."""
    from bakery.recipe.files import shipped

    return _matching((*(item.recipe.name for item in _loaded(None)), *shipped()), incomplete)


def cells(context: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of the cells."""
    from bakery.resolve.plan import resolve

    names: list[str] = []
    for item in _loaded(context):
        with suppress(BakeryError):
            plan = resolve(item, environ=os.environ)
            names += [cell.id for cell in (*plan.cells, *plan.cibuildwheel_cells)]
    return _matching(names, incomplete)


def variables(context: typer.Context, incomplete: str) -> list[str]:
    """Return ``NAME=VALUE`` of every variable, as it is now; ``NAME=`` where a shell might interpret the value."""
    from bakery.cli.shell_completion import HARMLESS
    from bakery.resolve.plan import resolve
    from bakery.resolve.settings import settable

    texts: dict[str, str] = {}
    for item in _loaded(context):
        with suppress(BakeryError):
            values = resolve(item, environ=os.environ).values()
            for name in sorted(settable(item)):
                value = values.get(name, "")
                texts[f"{name}={value if HARMLESS.fullmatch(value) else ''}"] = ""
    return _matching(texts, incomplete)


def _loaded(context: typer.Context | None) -> list[Loaded]:
    """Return the recipes of the command line, or of the working folder; those that cannot be loaded are left out."""
    from bakery.recipe.load import load

    named = (context.params.get("recipe") if context else None) or (None,)
    recipes: list[Loaded] = []
    for reference in named:
        with suppress(BakeryError):
            recipes += load(reference, Path.cwd())
    return recipes


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]
