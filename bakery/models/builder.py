"""The builder: what wheels are built in."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from pydantic import Field, StrictBool, field_validator, model_validator

from bakery.models.base import Model
from bakery.models.text import EnvironmentName, Line, RequirementText, SystemPackage

_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._/:-]*\Z")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


class Base(Model):
    """The root file system that a builder starts from.

    The short form is a provider's name: ``base = "debian"`` takes the Debian release whose own Python
    is the one asked for. An image in manylinux layout is written ``base = { image = "…" }``.
    """

    short_form: ClassVar[str | None] = "string"

    provider: str | None = Field(default=None, examples=["debian", "image"])
    """Who provides the base; ``image`` when an image is named."""
    image: str | None = Field(default=None, examples=["quay.io/pypa/manylinux_2_28_x86_64:2026.06.28-1"])
    """Any image by name. /opt/python, auditwheel and AUDITWHEEL_PLAT of manylinux images are understood."""
    digest: str | None = None
    """The image's digest, ``sha256:…``; the same bytes on every machine."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"provider": value} if isinstance(value, str) else value

    @field_validator("image")
    @classmethod
    def _image_name(cls, value: str | None) -> str | None:
        if value is not None and not _IMAGE.match(value):
            raise ValueError("expected an image name, such as 'quay.io/pypa/manylinux_2_28_x86_64:2026.06.28-1'")
        return value

    @field_validator("digest")
    @classmethod
    def _sha256(cls, value: str | None) -> str | None:
        if value is not None and not _DIGEST.match(value):
            raise ValueError("expected sha256: and 64 hexadecimal digits")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Base:
        if self.digest and not self.image:
            raise ValueError("digest belongs to an image; name the image, too")
        if self.image and self.provider not in (None, "image"):
            raise ValueError(f"provider {self.provider!r} takes no image; remove one of the two")
        if self.provider == "image" and not self.image:
            raise ValueError("provider 'image' needs the name of an image")
        return self


class Builder(Model):
    """The image that compiles: a base, a toolkit, and what the build needs beside the source."""

    base: Base | None = None
    """The root file system to start from."""
    toolkit: str | None = Field(default=None, examples=["none", "cuda", "wheels", "clang"])
    """The CUDA compiler and libraries; ``cuda`` picks the provider that has the release asked for."""
    requirements: tuple[RequirementText, ...] | None = Field(default=None, examples=[["cmake>=3.26", "ninja"]])
    """Python packages beside those of the project's own ``[build-system] requires``."""
    system_packages: tuple[SystemPackage, ...] | None = None
    """Packages of the base's own package manager."""
    environment: dict[EnvironmentName, Line] | None = Field(
        default=None, examples=[{"CMAKE_CUDA_ARCHITECTURES": "${CUDA_ARCHS}"}]
    )
    """Environment of the compile step; ``${NAME}`` stands for a variable's value."""
    compiler_cache: StrictBool | None = None
    """Keep compiled objects in a ccache that survives changes of the source."""
    network: StrictBool | None = None
    """Allow the compile step to use the network. Off by default: what it needs belongs in requirements."""
