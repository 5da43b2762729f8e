"""Plans of recipes, in one call."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from file_trees import write_files

import bakery
from bakery.plan.model import Plan
from bakery.recipe import models
from bakery.recipe.load import from_python, load
from bakery.resolve.plan import resolve
from bakery.resolve.set_option import parse_set_options


def plan_of(toml: str, *sets: str, files: Mapping[str, str] | None = None) -> Plan:
    """Return the plan of a recipe's text, in a folder with ``files``; ``sets`` as ``--set``."""
    with tempfile.TemporaryDirectory() as folder:
        return planned(None, write_files(Path(folder), {"bakery.toml": toml, **(files or {})}), *sets)


def written(folder: Path, toml: str, *sets: str, environ: Mapping[str, str] | None = None) -> Plan:
    """Return the plan of a recipe's text, which stays in the folder."""
    (folder / "bakery.toml").write_text(toml, encoding="utf-8")
    return resolve(load(None, folder)[0], parse_set_options(sets), environ or {})


def plan_of_file(recipe: str | None, folder: Path, *sets: str) -> Plan:
    """Return the plan of the one recipe of a folder with this name or file."""
    (loaded,) = load(recipe, folder)
    return resolve(loaded, parse_set_options(sets))


def plan_with(*sets: str, root: Path | None = None, environ: Mapping[str, str] | None = None, **recipe: object) -> Plan:
    """Return the plan of a recipe with these tables, made in Python."""
    loaded = from_python(models.Recipe.model_validate({"name": "x", **recipe}), root or Path.cwd())
    return resolve(loaded, parse_set_options(sets), environ or {})


def planned(
    recipe: models.Recipe | str | None,
    root: Path,
    *sets: str,
    environ: Mapping[str, str] | None = None,
    dated: bool = True,
) -> Plan:
    """Return the plan of a recipe of a folder, or of one made in Python."""
    project = bakery.open(root, environ=environ or {})
    overrides = dict(item.split("=", 1) for item in sets)
    return project.recipe(recipe).plan(overrides, dated=dated).details
