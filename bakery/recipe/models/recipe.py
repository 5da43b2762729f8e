"""The recipe of one project."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from bakery.core import names
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.builder import Builder
from bakery.recipe.models.cache import Cache
from bakery.recipe.models.ci import Ci
from bakery.recipe.models.image import Image
from bakery.recipe.models.matrix import Matrix
from bakery.recipe.models.native import Native
from bakery.recipe.models.output import Output
from bakery.recipe.models.secret import Secret
from bakery.recipe.models.source import Source
from bakery.recipe.models.system import Macos, Windows
from bakery.recipe.models.test import Test
from bakery.recipe.models.text import Line, PlatformName, SecretName, VariableName, distinct, no_device
from bakery.recipe.models.variable import Variable
from bakery.recipe.models.wheel import Wheel

Platforms = Annotated[tuple[PlatformName, ...], AfterValidator(distinct)]


class Recipe(Model):
    """How to build, test and name the wheels of one project."""

    name: Line
    """The name of the recipe, used for generated files, stages and images."""
    description: Line | None = None
    """A description in one line."""
    source: Source | None = None
    """The source of the project."""
    platforms: Platforms | None = Field(default=None, examples=[["linux/amd64", "linux/arm64"]])
    """The platforms to build for, as Docker writes them. Linux platforms are built in containers. cibuildwheel builds
    ``macos/…`` and ``windows/…`` on a machine of that platform. ``["${BUILD_PLATFORM}"]`` takes the platforms from a
    variable."""
    variables: dict[VariableName, Variable] | None = None
    """Variables, which ``--set NAME=VALUE`` can change."""
    matrix: Matrix | None = None
    """The axes whose combinations are the cells."""
    builder: Builder | None = None
    """The image that wheels are built in."""
    native: Native | None = None
    """A step that compiles code once for all Pythons."""
    wheel: Wheel | None = None
    """How the wheel is built, repaired and named."""
    test: Test | None = None
    """How the wheel is tested in a clean base image."""
    image: Image | None = None
    """Build an image with tools instead of wheels."""
    secrets: dict[SecretName, Secret] | None = None
    """Secrets for the steps of the build."""
    macos: Macos | None = None
    """Settings for macOS."""
    windows: Windows | None = None
    """Settings for Windows."""
    cache: Cache | None = None
    """The layer cache."""
    output: Output | None = None
    """Where finished wheels are published."""
    ci: Ci | None = None
    """The GitHub Actions workflow. Without this table, no workflow is generated."""

    @field_validator("name")
    @classmethod
    def _recipe_name(cls, value: str) -> str:
        if not names.RECIPE.match(value) or len(value) > 64:
            plain = re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-")[:64].rstrip("-")
            raise invalid(
                "expected a letter, then lower-case letters, digits and dashes, such as 'my-kernels'",
                f'write name = "{plain}"' if names.RECIPE.match(plain) else "name it after the project",
            )
        return no_device(value)
