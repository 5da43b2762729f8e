"""What the steps of a bake do, in words: displays show these instead of instructions."""

from __future__ import annotations

import re
from collections.abc import Callable

from bakery.plan.cells import Cell
from bakery.plan.model import Plan
from bakery.runs.buildx.rawjson import Label, Role

StepName = Callable[[Label], str]

_STAGES = {
    "backend": "install build requirements",
    "backend-requirements": "resolve requirements of the build backend",
    "backend-requires": "ask the build backend what it requires",
    "backend-requires-again": "ask the build backend with the repository",
    "backend-requires-asked": "prepare",
    "base": "install repair tools",
    "before-build": "before-build command",
    "builder": "install requirements of the build backend",
    "builder-materials": "list what the builder has",
    "builder-system": "Python and system packages of the builder",
    "cache-scope": "prepare",
    "carry": "move the compiler cache",
    "compile": "compile",
    "compile-again": "compile with the repository",
    "compile-asked": "prepare",
    "crates": "fetch Rust crates",
    "fetch": "fetch the source",
    "image": "install the image's packages",
    "image-requirements": "resolve the image's requirements",
    "image-requirements-built": "build the image's requirements",
    "image-materials": "list what the image has",
    "image-system": "system packages of the image",
    "ingredients": "list what the wheel was built from",
    "lock": "prepare",
    "git": "prepare",
    "git-description": "describe the repository",
    "native": "native step",
    "native-again": "native step with the repository",
    "native-asked": "prepare",
    "native-requirements": "resolve requirements of the native step",
    "native-requirements-built": "build requirements of the native step",
    "native-system": "system packages of the native step",
    "native-tools-materials": "list the tools of the native step",
    "native-tools": "tools of the native step",
    "programs": "prepare",
    "project": "read the project's requirements",
    "repair": "repair",
    "repository": "prepare",
    "requirements": "resolve build requirements",
    "requirements-built": "build requirements that have no wheel",
    "root-packages": "list what the base has",
    "runtime": "Python of the test",
    "rust": "toolkit Rust",
    "source": "project's source",
    "suites": "list system packages",
    "system": "compilers and Python",
    "test": "test",
    "test-env": "install the wheel and test requirements",
    "test-env-materials": "list what the test has",
    "test-requirements": "resolve test requirements",
    "test-requirements-built": "build test requirements that have no wheel",
    "test-root-packages": "list what the base of the test has",
    "test-system": "system packages of the test",
    "tools": "prepare",
    "tools-requirements": "resolve repair tools",
    "wheel": "wheel",
    "wheel-base": "install repair tools",
    "wheel-root-packages": "list what the base for repair has",
    "wheel-system": "compilers and Python for repair",
    "wheel-tools-requirements": "resolve repair tools",
}
"""Stage → what its steps do. Of the stages of a recipe (``cpp-wheel``), the name without the recipe."""

_EXPORTS = {"exporting to image": "write the image"}

_IMAGE = re.compile(r"FROM (?:docker\.io/library/|docker\.io/)?(?P<name>[^@\s]+)")


def name_step(label: Label, recipe: str = "", toolkit: str = "") -> str:
    """Return what a step does, such as ``compile``.

    Args:
        recipe: stages of this name have it in front of theirs.
        toolkit: the CUDA release of the cell, such as ``13.0.3``.
    """
    if label.role is not Role.STEP:
        return _EXPORTS.get(label.text, "copy the result") if label.role is Role.EXPORT else label.title
    if image := _IMAGE.match(label.text):
        return f"image {image['name']}"
    stage = label.stage.removeprefix(f"{recipe}-") if recipe else label.stage
    if words := _STAGES.get(label.stage) or _STAGES.get(stage):
        return words
    if label.stage.startswith("cuda-") and label.stage.endswith("-requirements"):
        return f"resolve CUDA {toolkit}".rstrip()
    if label.stage == "toolkit" or label.stage.startswith(("cuda-", "toolkit-")):
        return f"toolkit CUDA {toolkit}" if toolkit else "toolkit"
    return stage or label.title


def step_names(plan: Plan | None, cell: Cell) -> StepName:
    """Return what names the steps of a cell's bake."""
    if plan is None:
        return name_step
    toolkit = plan.args_of(cell).get("CUDA_VERSION", "")
    return lambda label: name_step(label, plan.recipe, toolkit)
