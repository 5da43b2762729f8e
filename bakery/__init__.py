"""Bakery: typed recipes for native Python wheels, compiled to bake files and baked for real.

The names below are the library; they are imported when they are used, so that the command starts quickly.
"""

# Nothing is imported here: `python -m bakery` comes by before it takes the working folder off the module search path.
TYPE_CHECKING = False

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bakery.api import bake, generate_files, plan_recipe
    from bakery.recipe.models import (
        Base,
        Builder,
        Cache,
        Matrix,
        Naming,
        Output,
        Override,
        Recipe,
        Repair,
        Source,
        Test,
        Variable,
        Wheel,
    )

__all__ = [
    "Base",
    "Builder",
    "Cache",
    "Matrix",
    "Naming",
    "Output",
    "Override",
    "Recipe",
    "Repair",
    "Source",
    "Test",
    "Variable",
    "Wheel",
    "bake",
    "generate_files",
    "plan_recipe",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'bakery' has no attribute {name!r}")
    from importlib import import_module

    home = "bakery.api" if name in ("bake", "generate_files", "plan_recipe") else "bakery.recipe.models"
    return getattr(import_module(home), name)
