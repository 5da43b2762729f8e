"""The test target: how the wheel is tested in a clean base image."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool

from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import Line, ModuleName, RequirementText


def _inside(path: str) -> str:
    if not path or path.startswith(("/", "~")) or "\\" in path or ".." in path.split("/") or "$" in path:
        raise invalid(
            "expected a path inside the source, such as 'tests'",
            "name files as they are called in the source, without '..' and variables",
        )
    return path


SourcePath = Annotated[Line, AfterValidator(_inside)]


class Test(Model):
    """The test target. It loads all shared objects of the wheel, then imports modules, then runs the command."""

    requirements: tuple[RequirementText, ...] | None = Field(
        default=None, examples=[["pytest", "cuda-toolkit[cudart]==${CUDA_VERSION}"]]
    )
    """Python packages to install for the test, in addition to those that the wheel requires."""
    imports: tuple[ModuleName, ...] | None = None
    """Modules to import from the installed wheel. A stub replaces the GPU driver."""
    command: Line | None = Field(default=None, examples=["pytest tests"])
    """A shell command. It runs in a folder that contains only ``files``, without a GPU driver and without the stub."""
    files: tuple[SourcePath, ...] | None = Field(default=None, examples=[["tests"]])
    """Files and folders of the source to copy for the command."""
    network: StrictBool | None = None
    """Allow the command to use the network. Off by default; list what it needs in ``requirements`` and ``files``
    instead."""
    load_shared_objects: StrictBool | None = None
    """Load all shared objects and resolve all their symbols. This finds errors that an import alone does not find."""
