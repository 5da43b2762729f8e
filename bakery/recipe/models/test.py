"""The test target: what is done with the wheel in a clean runtime base."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool

from bakery.recipe.models.base import Model
from bakery.recipe.models.text import Line, ModuleName, RequirementText


def _inside(path: str) -> str:
    if not path or path.startswith(("/", "~")) or "\\" in path or ".." in path.split("/") or "$" in path:
        raise ValueError("expected a path inside the source, such as 'tests'")
    return path


SourcePath = Annotated[Line, AfterValidator(_inside)]


class Test(Model):
    """The test target: every shared object of the wheel is loaded, then imports, then the command."""

    requirements: tuple[RequirementText, ...] | None = Field(
        default=None, examples=[["pytest", "cuda-toolkit[cudart]==${CUDA_VERSION}"]]
    )
    """Python packages beside those that the wheel itself requires."""
    imports: tuple[ModuleName, ...] | None = None
    """Modules that must import from the installed wheel; a stub stands in for the GPU driver that they may need."""
    command: Line | None = Field(default=None, examples=["pytest tests"])
    """A shell command; it runs in an empty folder that holds only ``files``, and sees no GPU driver, not even a stub."""
    files: tuple[SourcePath, ...] | None = Field(default=None, examples=[["tests"]])
    """Files and folders of the source that the command needs."""
    network: StrictBool | None = None
    """Allow the command to use the network. Off by default: what it needs belongs in requirements and files."""
    load_shared_objects: StrictBool | None = None
    """Load every shared object with all its symbols resolved; finds what an import alone does not."""
