"""Bakery: typed recipes for native Python wheels, compiled to bake files and baked for real.

The names below are the library; they are imported when they are used, so that the command starts quickly.
"""

# Nothing is imported here: `python -m bakery` comes by before it takes the working folder off the module search path.
TYPE_CHECKING = False

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bakery.api import Recipe, RecipePlan, bake, generate_files, plan_recipe
    from bakery.build.buildx.progress import LogLines, StepFinished, StepStarted, TextLine
    from bakery.build.report import RunReport
    from bakery.recipe.models import (
        Base,
        Builder,
        Cache,
        Matrix,
        Naming,
        Output,
        Override,
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
    "LogLines",
    "Matrix",
    "Naming",
    "Output",
    "Override",
    "Recipe",
    "RecipePlan",
    "Repair",
    "RunReport",
    "Source",
    "StepFinished",
    "StepStarted",
    "Test",
    "TextLine",
    "Variable",
    "Wheel",
    "bake",
    "generate_files",
    "plan_recipe",
]

_HOMES = {
    **dict.fromkeys(("Recipe", "RecipePlan", "bake", "generate_files", "plan_recipe"), "bakery.api"),
    **dict.fromkeys(("LogLines", "StepFinished", "StepStarted", "TextLine"), "bakery.build.buildx.progress"),
    "RunReport": "bakery.build.report",
}
"""Name → its module; the others are models."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'bakery' has no attribute {name!r}")
    from importlib import import_module

    home = _HOMES.get(name, "bakery.recipe.models")
    return getattr(import_module(home), name)
