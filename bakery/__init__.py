"""Bakery: typed recipes for native Python wheels, compiled to bake files and baked for real.

The names below are the library; they are imported when they are used, so that the command starts quickly.
"""

# Nothing is imported here: `python -m bakery` comes by before it takes the working folder off the module search path.
TYPE_CHECKING = False

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bakery.api import (
        BakeOptions,
        LoadedRecipe,
        Project,
        RecipePlan,
        audit,
        open,
    )
    from bakery.core.errors import (
        AuditError,
        BakeError,
        BakeryError,
        DifferentError,
        DriftError,
        EngineError,
        InterruptedBake,
        LockError,
        OutputError,
        PlanError,
        RecipeError,
        SomeFailed,
        UnavailableError,
        UsageError,
    )
    from bakery.recipe.models import (
        Base,
        Builder,
        Builders,
        Cache,
        Ci,
        Farm,
        Image,
        Macos,
        Matrix,
        Naming,
        Native,
        Node,
        Output,
        Override,
        Recipe,
        Repair,
        Secret,
        Source,
        Test,
        Tls,
        Variable,
        Wheel,
        Windows,
        Workspace,
    )
    from bakery.runs.buildx.progress import (
        LogLines,
        StepFinished,
        StepStarted,
        TextLine,
    )
    from bakery.runs.run_report import RunReport

__all__ = [
    "AuditError",
    "BakeError",
    "BakeOptions",
    "BakeryError",
    "Base",
    "Builder",
    "Builders",
    "Cache",
    "Ci",
    "DifferentError",
    "DriftError",
    "EngineError",
    "Farm",
    "Image",
    "InterruptedBake",
    "LoadedRecipe",
    "LockError",
    "LogLines",
    "Macos",
    "Matrix",
    "Naming",
    "Native",
    "Node",
    "Output",
    "OutputError",
    "Override",
    "PlanError",
    "Project",
    "Recipe",
    "RecipeError",
    "RecipePlan",
    "Repair",
    "RunReport",
    "Secret",
    "SomeFailed",
    "Source",
    "StepFinished",
    "StepStarted",
    "Test",
    "TextLine",
    "Tls",
    "UnavailableError",
    "UsageError",
    "Variable",
    "Wheel",
    "Windows",
    "Workspace",
    "audit",
    "open",
]

_HOMES = {
    **dict.fromkeys(("BakeOptions", "LoadedRecipe", "Project", "RecipePlan", "audit", "open"), "bakery.api"),
    **dict.fromkeys(("LogLines", "StepFinished", "StepStarted", "TextLine"), "bakery.runs.buildx.progress"),
    "RunReport": "bakery.runs.run_report",
}
"""Name → its module; the others are errors and models."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'bakery' has no attribute {name!r}")
    from importlib import import_module

    from bakery.core import errors

    home = _HOMES.get(name, "bakery.core.errors" if hasattr(errors, name) else "bakery.recipe.models")
    return getattr(import_module(home), name)
