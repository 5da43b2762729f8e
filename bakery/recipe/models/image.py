"""An image as the result: tools that run in it, and no wheel."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from bakery.recipe.models.base import Model
from bakery.recipe.models.test import SourcePath
from bakery.recipe.models.text import ProgramName, RequirementText, SystemPackage, distinct


class Image(Model):
    """The image target. A recipe with this table has an image with these tools as its result, and no wheel."""

    requirements: Annotated[tuple[RequirementText, ...], AfterValidator(distinct)] = Field(
        examples=[["iree-base-compiler==${IREE_VERSION}"]]
    )
    """Python packages; each is installed by the hash that the index, or the recipe's lock, has for it."""
    system_packages: tuple[SystemPackage, ...] | None = None
    """Packages of the base's own package manager."""
    programs: dict[ProgramName, SourcePath] | None = Field(default=None, examples=[{"ptxas": "nvidia/cu13/bin/ptxas"}])
    """Programs that packages hold and pip puts on no PATH: name → where it lies in site-packages."""
