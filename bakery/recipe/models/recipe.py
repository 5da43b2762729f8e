"""The recipe: everything a person writes about one project."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from bakery.core import names
from bakery.recipe.models.base import Model
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
    """How the wheels of one project are built, tested and named."""

    name: Line
    """Names the generated files, the stages and the images."""
    description: Line | None = None
    """One line for people."""
    source: Source | None = None
    """Where the project's source comes from."""
    platforms: Platforms | None = Field(default=None, examples=[["linux/amd64", "linux/arm64"]])
    """The platforms to build for, in Docker's spelling: those of Linux are baked, ``macos/arm64`` or ``windows/amd64``
    are built by cibuildwheel on such a machine; ``["${BUILD_PLATFORM}"]`` takes them from a variable."""
    variables: dict[VariableName, Variable] | None = None
    """Values that ``--set NAME=VALUE`` changes."""
    matrix: Matrix | None = None
    """Which cells exist."""
    builder: Builder | None = None
    """What wheels are built in."""
    native: Native | None = None
    """What is compiled once for all Pythons."""
    wheel: Wheel | None = None
    """How the wheel is built, repaired and named."""
    test: Test | None = None
    """What is done with the wheel in a clean runtime base."""
    image: Image | None = None
    """An image as the result in place of wheels."""
    secrets: dict[SecretName, Secret] | None = None
    """What steps are told in confidence."""
    macos: Macos | None = None
    """What differs on macOS."""
    windows: Windows | None = None
    """What differs on Windows."""
    cache: Cache | None = None
    """Where the layer cache is kept between runs."""
    output: Output | None = None
    """Where finished wheels go."""
    ci: Ci | None = None
    """The workflow that bakes all of it in GitHub Actions; without this table there is none."""

    @field_validator("name")
    @classmethod
    def _recipe_name(cls, value: str) -> str:
        if not names.RECIPE.match(value) or len(value) > 64:
            raise ValueError("expected a letter, then lower-case letters, digits and dashes, such as 'my-kernels'")
        return no_device(value)
