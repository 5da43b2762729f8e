"""The native step: code that is compiled once for all Pythons."""

from __future__ import annotations

from pydantic import Field, StrictBool, field_validator, model_validator

from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.test import SourcePath
from bakery.recipe.models.text import REFERENCE, EnvironmentName, Line, RequirementText, SystemPackage, Text

_PYTHON = "PYTHON_VERSION"


class Native(Model):
    """A step whose result does not depend on Python, such as device code or shared libraries that modules load.

    It runs once for each CUDA release, and for each value of anything else that it refers to. It runs with the toolkit,
    on the base image of the oldest Python of the matrix. The wheel of each Python includes its result and is then built
    on its own base image, without the toolkit.
    """

    command: Text = Field(
        examples=[
            "cmake -S /src -B /build -G Ninja -DCMAKE_INSTALL_PREFIX=/native && "
            "cmake --build /build && cmake --install /build"
        ]
    )
    """The shell command to run in ``/src``; it must write its result to ``/native``."""
    into: SourcePath = Field(examples=["src/pkg/lib"])
    """The folder of the source that the result is copied to before a wheel is built; the project must package it."""
    requirements: tuple[RequirementText, ...] | None = Field(default=None, examples=[["cmake>=3.26", "ninja"]])
    """Python packages with programs that the command calls. They run on any Python of the base image."""
    system_packages: tuple[SystemPackage, ...] | None = None
    """Packages to install with the package manager of the base image."""
    environment: dict[EnvironmentName, Line] | None = Field(default=None, examples=[{"CUDAARCHS": "${CUDA_ARCHS}"}])
    """Environment variables of the command. ``builder.environment`` does not apply to it."""
    network: StrictBool | None = None
    """Allow the command to use the network. Off by default; list what it needs in ``requirements`` instead."""

    @field_validator("command")
    @classmethod
    def _no_empty_command(cls, value: str) -> str:
        if not value.strip():
            raise invalid(
                "expected a shell command", "write a command that builds the result and installs it into /native"
            )
        return value

    @model_validator(mode="after")
    def _one_for_all_pythons(self) -> Native:
        texts = (self.command, *(self.requirements or ()), *(self.environment or {}).values())
        if any(name == _PYTHON for text in texts for name in REFERENCE.findall(text)):
            raise invalid(
                f"expected no ${{{_PYTHON}}}: the native step serves every Python",
                "leave it out here; a step for one Python is the wheel's own build",
            )
        return self
