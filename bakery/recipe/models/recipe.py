"""The recipe of one project, its settings for macOS, Windows and the output folder, and the workspace."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from bakery.core import names
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.builder import Builder
from bakery.recipe.models.cache import Cache
from bakery.recipe.models.ci import Ci
from bakery.recipe.models.matrix import Matrix, Variable
from bakery.recipe.models.source import Source
from bakery.recipe.models.steps import Image, Native, Secret, Test
from bakery.recipe.models.text import (
    EnvironmentName,
    Line,
    Matching,
    PlatformName,
    SecretName,
    VariableName,
    WorkflowLine,
    distinct,
    no_device,
)
from bakery.recipe.models.wheel import Wheel


class Output(Model):
    """Where finished wheels are published."""

    directory: WorkflowLine = "dist"
    """The folder for wheels that passed the audit, relative to the project."""

    @field_validator("directory")
    @classmethod
    def _inside(cls, value: str) -> str:
        if not value or value.startswith(("~", "-")) or ".." in value.split("/"):
            raise invalid("expected a folder, such as 'dist'", "name a folder below the project, or an absolute path")
        for part in value.split("/"):
            no_device(part)
        return value


_Release = Annotated[Line, Matching(r"[1-9][0-9]\.[0-9]{1,2}", "a release of macOS in two parts, such as '11.0'")]


class Macos(Model):
    """Settings for macOS, where cibuildwheel builds directly on the machine."""

    minimum: _Release | None = Field(default=None, examples=["11.0"])
    """The oldest macOS that the wheels support (``MACOSX_DEPLOYMENT_TARGET``). By default, cibuildwheel decides."""
    before_all: Line = Field(default="", examples=["brew install libomp"])
    """A shell command that prepares the machine, run once for each wheel. It replaces ``builder.system-packages``."""
    environment: dict[EnvironmentName, Line] = Field(default={})
    """Environment variables of the build, added to ``builder.environment``. They take precedence over it."""
    test_command: Line | None = None
    """The test command on macOS. It replaces ``test.command``."""


class Windows(Model):
    """Settings for Windows, where cibuildwheel builds directly on the machine."""

    before_all: Line = Field(default="", examples=["choco install -y ninja"])
    """A command that prepares the machine, run once for each wheel. It replaces ``builder.system-packages``."""
    environment: dict[EnvironmentName, Line] = Field(default={})
    """Environment variables of the build, added to ``builder.environment``. They take precedence over it."""
    test_command: Line | None = Field(default=None, examples=['python -c "import pkg"'])
    """The test command on Windows. It replaces ``test.command``. ``cmd.exe`` runs it, so use double quotes only."""


Platforms = Annotated[tuple[PlatformName, ...], AfterValidator(distinct)]


class Recipe(Model):
    """How to build, test and name the wheels of one project."""

    name: Line
    """The name of the recipe, used for generated files, stages and images."""
    description: Line | None = None
    """A description in one line."""
    source: Source = Source(path=".")
    """The source of the project."""
    platforms: Platforms = Field(default=("linux/amd64",), examples=[["linux/amd64", "linux/arm64"]])
    """The platforms to build for, as Docker writes them. Linux platforms are built in containers. cibuildwheel builds
    ``macos/…`` and ``windows/…`` on a machine of that platform. ``["${BUILD_PLATFORM}"]`` takes the platforms from a
    variable."""
    variables: dict[VariableName, Variable] = Field(default={})
    """Variables, which ``--set NAME=VALUE`` can change."""
    matrix: Matrix = Matrix()
    """The axes whose combinations are the cells."""
    builder: Builder = Builder()
    """The image that wheels are built in."""
    native: Native | None = None
    """A step that compiles code once for all Pythons."""
    wheel: Wheel = Wheel()
    """How the wheel is built, repaired and named."""
    test: Test = Test()
    """How the wheel is tested in a clean base image."""
    image: Image | None = None
    """Build an image with tools instead of wheels."""
    secrets: dict[SecretName, Secret] = Field(default={})
    """Secrets for the steps of the build."""
    macos: Macos = Macos()
    """Settings for macOS."""
    windows: Windows = Windows()
    """Settings for Windows."""
    cache: Cache = Cache()
    """The layer cache."""
    output: Output = Output()
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


class Workspace(Model):
    """Several recipes in one repository. Commands work on all of them, or on the one that you name."""

    recipes: Annotated[tuple[Line, ...], Field(min_length=1, max_length=1000)] = Field(
        examples=[["examples/cuda", "ujson"]]
    )
    """Folders with a recipe, relative to this file, or names of shipped recipes."""
    ci: Ci | None = None
    """Workflows for the recipes without a ``[ci]`` table."""
