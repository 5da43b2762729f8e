"""What differs on macOS and on Windows, where cibuildwheel builds on the machine itself."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from bakery.recipe.models.base import Model
from bakery.recipe.models.text import EnvironmentName, Line

_RELEASE = re.compile(r"1[0-9]\.[0-9]{1,2}\Z|[2-9][0-9]\.[0-9]{1,2}\Z")


class Macos(Model):
    """What differs on macOS, where cibuildwheel builds on the machine itself."""

    minimum: Line | None = Field(default=None, examples=["11.0"])
    """The oldest macOS that wheels run on (MACOSX_DEPLOYMENT_TARGET); cibuildwheel's choice without it."""
    before_all: Line | None = Field(default=None, examples=["brew install libomp"])
    """A shell command that prepares the machine, once for each wheel: in place of builder.system-packages."""
    environment: dict[EnvironmentName, Line] | None = None
    """Environment of the build, beside and above the builder's."""
    test_command: Line | None = None
    """In place of test.command."""

    @field_validator("minimum")
    @classmethod
    def _release(cls, value: str | None) -> str | None:
        if value is not None and not _RELEASE.match(value):
            raise ValueError("expected a release of macOS in two parts, such as '11.0'")
        return value


class Windows(Model):
    """What differs on Windows, where cibuildwheel builds on the machine itself."""

    before_all: Line | None = Field(default=None, examples=["choco install -y ninja"])
    """A command that prepares the machine, once for each wheel: in place of builder.system-packages."""
    environment: dict[EnvironmentName, Line] | None = None
    """Environment of the build, beside and above the builder's."""
    test_command: Line | None = Field(default=None, examples=['python -c "import pkg"'])
    """In place of test.command; cmd.exe runs it, which knows double quotes only."""
