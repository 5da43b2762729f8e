"""Settings for macOS and Windows, where cibuildwheel builds directly on the machine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bakery.recipe.models.base import Model
from bakery.recipe.models.text import EnvironmentName, Line, Matching

_Release = Annotated[Line, Matching(r"[1-9][0-9]\.[0-9]{1,2}", "a release of macOS in two parts, such as '11.0'")]


class Macos(Model):
    """Settings for macOS, where cibuildwheel builds directly on the machine."""

    minimum: _Release | None = Field(default=None, examples=["11.0"])
    """The oldest macOS that the wheels support (``MACOSX_DEPLOYMENT_TARGET``). By default, cibuildwheel decides."""
    before_all: Line | None = Field(default=None, examples=["brew install libomp"])
    """A shell command that prepares the machine, run once for each wheel. It replaces ``builder.system-packages``."""
    environment: dict[EnvironmentName, Line] | None = None
    """Environment variables of the build, added to ``builder.environment``. They take precedence over it."""
    test_command: Line | None = None
    """The test command on macOS. It replaces ``test.command``."""


class Windows(Model):
    """Settings for Windows, where cibuildwheel builds directly on the machine."""

    before_all: Line | None = Field(default=None, examples=["choco install -y ninja"])
    """A command that prepares the machine, run once for each wheel. It replaces ``builder.system-packages``."""
    environment: dict[EnvironmentName, Line] | None = None
    """Environment variables of the build, added to ``builder.environment``. They take precedence over it."""
    test_command: Line | None = Field(default=None, examples=['python -c "import pkg"'])
    """The test command on Windows. It replaces ``test.command``. ``cmd.exe`` runs it, so use double quotes only."""
