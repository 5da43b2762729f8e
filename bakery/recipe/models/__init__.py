"""Pydantic models of a recipe. ``None`` means that a field is not set.

The JSON schema and docs/recipe.md are generated from these models. Defaults belong in ``resolve/defaults.py``. The
models import ``core`` only.
"""

from bakery.recipe.models.builder import Base, Builder
from bakery.recipe.models.cache import Cache
from bakery.recipe.models.ci import Ci
from bakery.recipe.models.farm import Builders, Farm, Node, Tls
from bakery.recipe.models.image import Image
from bakery.recipe.models.matrix import Matrix, Override
from bakery.recipe.models.native import Native
from bakery.recipe.models.output import Output
from bakery.recipe.models.recipe import Recipe
from bakery.recipe.models.secret import Secret
from bakery.recipe.models.source import Source
from bakery.recipe.models.system import Macos, Windows
from bakery.recipe.models.test import Test
from bakery.recipe.models.variable import Variable
from bakery.recipe.models.wheel import Naming, Repair, Wheel
from bakery.recipe.models.workspace import Workspace

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
