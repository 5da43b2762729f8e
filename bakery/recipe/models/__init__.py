"""Pydantic models of a recipe: its keys, their types, defaults and descriptions, all on the field.

The JSON schema and docs/recipe.md are generated from these models.
"""

from bakery.recipe.models.builder import Base, Builder
from bakery.recipe.models.cache import Cache
from bakery.recipe.models.ci import Ci
from bakery.recipe.models.farm import Builders, Farm, Node, Tls
from bakery.recipe.models.matrix import Matrix, Override, Variable
from bakery.recipe.models.recipe import Macos, Output, Recipe, Windows, Workspace
from bakery.recipe.models.source import Source
from bakery.recipe.models.steps import Image, Native, Secret, Test
from bakery.recipe.models.wheel import Naming, Repair, Wheel

__all__ = [
    "Base",
    "Builder",
    "Builders",
    "Cache",
    "Ci",
    "Farm",
    "Image",
    "Macos",
    "Matrix",
    "Naming",
    "Native",
    "Node",
    "Output",
    "Override",
    "Recipe",
    "Repair",
    "Secret",
    "Source",
    "Test",
    "Tls",
    "Variable",
    "Wheel",
    "Windows",
    "Workspace",
]
