"""A recipe that builds an image with tools instead of wheels."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from bakery.recipe.models.base import Model
from bakery.recipe.models.test import SourcePath
from bakery.recipe.models.text import ProgramName, RequirementText, SystemPackage, distinct


class Image(Model):
    """The image target. A recipe with this table builds an image with these tools instead of wheels."""

    requirements: Annotated[tuple[RequirementText, ...], AfterValidator(distinct)] = Field(
        examples=[["iree-base-compiler==${IREE_VERSION}"]]
    )
    """Python packages to install. Each is checked against its hash from the lock file or the package index."""
    system_packages: tuple[SystemPackage, ...] | None = None
    """Packages to install with the package manager of the base image."""
    programs: dict[ProgramName, SourcePath] | None = Field(default=None, examples=[{"ptxas": "nvidia/cu13/bin/ptxas"}])
    """Programs inside packages that pip does not put on ``PATH``: name → path below ``site-packages``."""
