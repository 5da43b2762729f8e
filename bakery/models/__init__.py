"""Typed, frozen models of what a person writes."""

from bakery.models.builder import Base, Builder
from bakery.models.cache import Cache
from bakery.models.ci import Ci
from bakery.models.farm import Builders, Farm, Node, Tls
from bakery.models.image import Image
from bakery.models.matrix import Matrix, Override
from bakery.models.native import Native
from bakery.models.output import Output
from bakery.models.recipe import Recipe
from bakery.models.secret import Secret
from bakery.models.source import Source
from bakery.models.system import Macos, Windows
from bakery.models.test import Test
from bakery.models.variable import Variable
from bakery.models.wheel import Naming, Repair, Wheel
from bakery.models.workspace import Workspace

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
