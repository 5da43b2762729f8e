"""The builder: what wheels are built in."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictBool, field_validator, model_validator

from bakery.models.base import Model
from bakery.models.text import (
    REFERENCE,
    ComponentText,
    EnvironmentName,
    Fingerprint,
    Line,
    ProjectName,
    RequirementText,
    SizeText,
    SystemPackage,
)

_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._/:-]*\Z")
_ADDRESS = re.compile(r"(?:https|file)://[^\s'\"\\]+\Z")
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
    """Any image by name; ``${NAME}`` stands for a variable's value. /opt/python, auditwheel and AUDITWHEEL_PLAT of
    manylinux images are understood; what a plain image lacks is installed from its own packages."""
    digest: str | None = None
    """The image's digest, ``sha256:…``; the same bytes on every machine."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"provider": value} if isinstance(value, str) else value

    @field_validator("image")
    @classmethod
    def _image_name(cls, value: str | None) -> str | None:
        # The value of a reference is known later.
        if value is not None and not _IMAGE.match(REFERENCE.sub("0", value)):
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
        if self.digest and self.image and (reference := REFERENCE.search(self.image)):
            raise ValueError(
                f"digest names one image, and with {reference[0]} the name may be several; remove one of the two"
            )
        if self.image and self.provider not in (None, "image"):
            raise ValueError(f"provider {self.provider!r} takes no image; remove one of the two")
        if self.provider == "image" and not self.image:
            raise ValueError("provider 'image' needs the name of an image")
        return self


class Builder(Model):
    """The image that compiles: a base, a toolkit, and what the build needs beside the source."""

    base: Base | None = None
    """The root file system to start from."""
    toolkit: str | None = Field(default=None, examples=["none", "cuda", "wheels", "clang", "image", "repository"])
    """The CUDA compiler and libraries; ``cuda`` picks the provider that has the release asked for."""
    cuda_repository: Line | None = Field(default=None, examples=["https://mirror.example/cuda/repos/rhel8/x86_64"])
    """The folder of NVIDIA's package repository, or of a mirror, for the base's distribution and machine; toolkit
    ``repository`` installs from it. It starts with https: or file:."""
    cuda_repository_key: Fingerprint | None = Field(default=None, examples=["610C7B14E068A878070DA4E99CD0A493D42D0685"])
    """The fingerprint of the key that signs the repository, all 40 digits. Without it, the keys whose fingerprints NVIDIA
    published are accepted: those of Debian 12, Ubuntu, and RHEL 8 and 9."""
    components: tuple[ComponentText, ...] | None = Field(default=None, examples=[["cublas", "cusolver", "cudnn==9.*"]])
    """Libraries of CUDA that the project is compiled and linked with, from NVIDIA's wheels. Their versions are those of
    the CUDA release; one that is released on its own (cudnn, nccl) has the version that torch pins for that CUDA, or the
    one said here."""
    framework: str | None = Field(default=None, examples=["torch", "jax"])
    """What the extension is built for. Its release is a variable or an axis (TORCH_VERSION): the build sees exactly
    that one, so does the test, and the wheel's metadata requires what it can work with."""
    requirements: tuple[RequirementText, ...] | None = Field(default=None, examples=[["cmake>=3.26", "ninja"]])
    """Python packages beside those of the project's own ``[build-system] requires``."""
    allow_direct: tuple[ProjectName, ...] | None = Field(default=None, examples=[["my-build-tool"]])
    """Python packages that a requirement may name by an address (``name @ https://…``, ``name @ git+https://…``): in this
    recipe, in the project's pyproject.toml, or in a package. Every other one is refused. A source is built
    without network and without secrets."""
    system_packages: tuple[SystemPackage, ...] | None = None
    """Packages of the base's own package manager."""
    environment: dict[EnvironmentName, Line] | None = Field(
        default=None, examples=[{"CMAKE_CUDA_ARCHITECTURES": "${CUDA_ARCHS}"}]
    )
    """Environment of the compile step; ``${NAME}`` stands for a variable's value."""
    cross: StrictBool | None = None
    """Compile on the platform of the machine that builds: where that is not the cell's, by Debian's cross compiler. C and
    C++ on Debian; without it, and for tests, a platform that no node has is emulated."""
    compiler_cache: StrictBool | None = None
    """Keep compiled objects in a ccache that survives changes of the source."""
    job_memory: SizeText | None = Field(default=None, examples=["3.5 GB"])
    """What one compiler needs at its peak. The build then runs as many at a time as the machine's cores and free memory
    allow, told by MAX_JOBS, EXT_PARALLEL and CMAKE_BUILD_PARALLEL_LEVEL; NVCC_THREADS is 1. What the environment sets
    already, stays."""
    jobs: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = None
    """A fixed number of compilers at a time, for machines that are all alike."""
    network: StrictBool | None = None
    """Allow the compile step to use the network. Off by default: what it needs belongs in requirements."""

    @field_validator("cuda_repository")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and not _ADDRESS.match(REFERENCE.sub("0", value)):
            raise ValueError("expected an address, such as 'https://mirror.example/cuda/repos/rhel8/x86_64'")
        return value

    @model_validator(mode="after")
    def _toolkit_has_its_source(self) -> Builder:
        if self.toolkit == "repository" and not self.cuda_repository:
            raise ValueError("toolkit 'repository' needs the address of the package repository: cuda-repository")
        if self.cuda_repository and self.toolkit != "repository":
            raise ValueError("cuda-repository is for toolkit 'repository'; set the toolkit, or remove it")
        if self.cuda_repository_key and not self.cuda_repository:
            raise ValueError("cuda-repository-key is the key of cuda-repository; name that, too, or remove the key")
        if self.toolkit == "image" and not (self.base and self.base.image):
            raise ValueError("toolkit 'image' is the CUDA of the base image; name one: base = { image = \"…\" }")
        return self
