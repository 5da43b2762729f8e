"""The wheel target: how the project is built, repaired and named."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import Field, StrictBool, field_validator, model_validator

from bakery.core import names
from bakery.recipe.models.base import Model
from bakery.recipe.models.text import Line, PythonVersion, RequirementText, SonameGlob

_PLAT = re.compile(r"(?:auto|manylinux(?:_2_[0-9]+|1|2010|2014))\Z")

LOCAL_LABEL = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*\Z")
"""A local version label (the version specifiers' specification)."""

BUILD_TAG = re.compile(r"[0-9][A-Za-z0-9_.]*\Z")
"""A build tag (the specification of wheel names)."""


class Repair(Model):
    """What auditwheel does to the built wheel. ``repair = false`` leaves the wheel as it was built."""

    short_form: ClassVar[str | None] = "boolean"

    enabled: StrictBool | None = None
    """Run auditwheel at all."""
    exclude: tuple[SonameGlob, ...] | None = Field(default=None, examples=[["libcudart.so.*", "libcuda.so.*"]])
    """Libraries that the wheel must find on the user's machine and must never bundle. Globs, since CUDA's
    sonames change with its major version."""
    strip: StrictBool | None = None
    """Strip symbols; smaller, and the same bytes in every build."""
    plat: Line | None = Field(default=None, examples=["auto", "manylinux_2_28"])
    """The platform tag to promise; ``auto`` is the base's AUDITWHEEL_PLAT or else the lowest that fits."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"enabled": value} if isinstance(value, bool) else value

    @field_validator("plat")
    @classmethod
    def _known_plat(cls, value: str | None) -> str | None:
        if value is not None and not _PLAT.match(value):
            raise ValueError("expected auto or a manylinux policy without the machine, such as 'manylinux_2_28'")
        return value


class Naming(Model):
    """How the finished wheel is named; unset parts stay as the project built them."""

    clean: StrictBool | None = None
    """Remove the local version label that the project itself sets."""
    local: Line | None = Field(default=None, examples=["cu128"])
    """A local version label (``+cu128``): for private indexes, since public ones refuse it."""
    build_tag: Line | None = Field(default=None, examples=["1cu128"])
    """A PEP 427 build tag; starts with a digit."""
    index: Literal["public", "private"] | None = None
    """Where a wheel of this name is to go: a public index takes no local version, and no file above its limit."""

    @field_validator("local")
    @classmethod
    def _local_label(cls, value: str | None) -> str | None:
        if value is not None and "${" not in value and not LOCAL_LABEL.match(value):
            raise ValueError("expected a local version label, such as 'cu128' or 'cu128torch2.8'")
        return value

    @field_validator("build_tag")
    @classmethod
    def _build_tag(cls, value: str | None) -> str | None:
        if value is not None and "${" not in value and not BUILD_TAG.match(value):
            raise ValueError("expected a build tag that starts with a digit, such as '1cu128'")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Naming:
        if self.clean and self.local:
            raise ValueError("clean removes the local version, and local sets one; write one of the two")
        return self


class Wheel(Model):
    """The wheel target."""

    frontend: names.Frontend | None = None
    """Who calls the build backend: pypa/build or uv."""
    config_settings: dict[Line, Line] | None = Field(default=None, examples=[{"cmake.build-type": "Release"}])
    """Passed to the build backend; ``${NAME}`` stands for a variable's value."""
    abi3: PythonVersion | None = Field(default=None, examples=["3.12"])
    """The lowest Python of the stable-ABI wheel that the project builds. From it on, one wheel serves all Pythons
    that are not free-threaded: the lowest of the matrix builds it, and each of them tests it."""
    repair: Repair | None = None
    """What auditwheel does."""
    naming: Naming | None = None
    """How the finished wheel is named."""
    also_named: tuple[Naming, ...] | None = Field(
        default=None, examples=[[{"local": "cu${CUDA_TAG}torch${TORCH_MINOR}", "index": "private"}]]
    )
    """Further wheels of the same build, which differ in their names alone."""
    requires: tuple[RequirementText, ...] | None = Field(default=None, examples=[["torch>=2.11"]])
    """What the wheel's metadata requires of its user, in place of what the project says of these distributions; a
    framework adds its own, unless its distribution is named here."""

    @field_validator("abi3")
    @classmethod
    def _with_gil(cls, value: str | None) -> str | None:
        if value is not None and value.endswith("t"):
            raise ValueError(
                f"no free-threaded Python loads an abi3 module; expected another, such as '{value.removesuffix('t')}'"
            )
        return value
