"""The wheel target: how the wheel is built, repaired and named."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictBool, field_validator, model_validator

from bakery.core import names
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import Line, Matching, PythonVersion, RequirementText, SizeText, SonameGlob

_Plat = Annotated[
    Line,
    Matching(
        "auto|manylinux(?:_2_[0-9]{1,3}|1|2010|2014)|musllinux_1_[0-9]{1,2}",
        "auto, or a manylinux or musllinux policy without the machine, such as 'manylinux_2_28'",
        "leave out the machine: Bakery adds it for each platform",
    ),
]

_TorchRelease = Annotated[
    Line, Matching("[1-9][0-9]{0,2}[.][0-9]{1,3}", "a minor release of torch, such as '2.10'", "leave out the patch")
]

_Growth = Annotated[Line, Matching("[0-9]{1,4} ?%", "a share in percent, such as '20 %'")]

LOCAL_LABEL = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*\Z")
"""A local version label, as the version specifiers specification defines it."""

BUILD_TAG = re.compile(r"[0-9][A-Za-z0-9_.]*\Z")
"""A build tag, as the binary distribution format specification defines it."""

_Local = Annotated[
    Line,
    Matching(
        LOCAL_LABEL,
        "a local version label, such as 'cu128' or 'cu128torch2.8'",
        "use letters, digits and dots",
        references=True,
    ),
]
_BuildTag = Annotated[
    Line,
    Matching(BUILD_TAG, "a build tag that starts with a digit, such as '1cu128'", "put a digit first", references=True),
]

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?\Z")
"""The name of a distribution, as the name specification defines it."""

_MetaName = Annotated[
    Line, Matching(NAME, "the name of a distribution, such as 'my-kernels'", "use letters, digits, - and _")
]
_Name = Annotated[
    Line,
    Matching(
        NAME,
        "the name of a distribution, such as 'my-kernels-cu${CUDA_MAJOR}'",
        "use letters, digits, - and _",
        references=True,
    ),
]

VARIANT_LABEL = re.compile(r"[a-z0-9_.]{1,64}\Z")
"""A variant label, as PEP 825 defines it."""


class Repair(Model):
    """How auditwheel repairs the wheel. ``repair = false`` turns it off."""

    short_form: ClassVar[str | None] = "boolean"

    enabled: StrictBool = True
    """Run auditwheel."""
    exclude: tuple[SonameGlob, ...] = Field(default=(), examples=[["libcudart.so.*", "libcuda.so.*"]])
    """Libraries that auditwheel must not bundle, because the user's machine provides them. Globs, because the sonames
    of CUDA's libraries change with its major version."""
    strip: StrictBool = False
    """Strip symbols. The wheel is smaller, and its bytes are the same in every build."""
    plat: _Plat = Field(default="auto", examples=["auto", "manylinux_2_28"])
    """The platform tag of the wheel. ``auto`` uses ``AUDITWHEEL_PLAT`` of the base image, or the lowest tag that fits
    if the image does not set it."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"enabled": value} if isinstance(value, bool) else value


class Naming(Model):
    """The name of the finished wheel. Parts that are not set stay as the project built them."""

    name: _Name | None = Field(default=None, examples=["my-kernels-cu${CUDA_MAJOR}"])
    """The name of the distribution, which users install. Modules keep their names, so only one of several distributions with the
    same modules can be installed."""
    meta: _MetaName | None = Field(default=None, examples=["my-kernels"])
    """The name of a meta package, which `wheel-bakery meta` writes. It has no files, and an extra for each distribution:
    ``pip install my-kernels[cu13]`` installs ``my-kernels-cu13``. ``name`` is this name, a hyphen and the extra."""
    clean: StrictBool = False
    """Remove the local version label that the project sets."""
    local: _Local | None = Field(default=None, examples=["cu128"])
    """The local version label (``+cu128``). For private indexes only: public indexes refuse local versions."""
    build_tag: _BuildTag | None = Field(default=None, examples=["1cu128"])
    """The build tag (PEP 427). It starts with a digit."""
    index: Literal["public", "private"] | None = None
    """The kind of index that the wheel is for. A public index accepts no local version and no file above its size
    limit."""

    @model_validator(mode="after")
    def _consistent(self) -> Naming:
        if self.meta and not (self.name or "").startswith(f"{self.meta}-"):
            raise invalid(
                f'meta: the name of a distribution is that of the meta package and an extra: name = "{self.meta}-cu${{CUDA_MAJOR}}"'
            )
        if self.clean and self.local:
            raise invalid("clean removes the local version, and local sets one; write one of the two")
        return self


_Property = Annotated[
    Line, Matching("[a-z0-9_]+ :: [a-z0-9_]+", "a namespace and a feature, such as 'nvidia :: sm_arch'", "write ' :: '")
]
_VariantLabel = Annotated[
    Line,
    Matching(
        VARIANT_LABEL,
        "a label of lower-case letters, digits, _ and dots, such as 'cu130'",
        "replace other characters by _",
        references=True,
    ),
]


class Variants(Model):
    """How ``wheel-bakery variants`` packages the wheels again as wheel variants (PEP 825)."""

    label: _VariantLabel | None = Field(default=None, examples=["cu${CUDA_TAG}"])
    """The label at the end of the file name. By default, it names the properties. A wheel that fits every machine always
    has the label ``null``."""
    properties: dict[_Property, Line | tuple[Line, ...]] = Field(
        default={}, examples=[{"nvidia :: cuda_version_lower_bound": "12.8"}, {"x86_64 :: level": "v3"}]
    )
    """Values of properties, in place of those that the audit reads in the wheel. They can only demand more of a machine:
    a value that the wheel does not prove is refused. An empty text leaves the property to the audit."""


class Wheel(Model):
    """The wheel target: how the wheel is built, repaired and named."""

    frontend: names.Frontend = names.Frontend.BUILD
    """The build frontend, which calls the build backend: pypa/build or uv."""
    config_settings: dict[Line, Line | tuple[Line, ...]] = Field(
        default={}, examples=[{"cmake.build-type": "Release"}, {"setup-args": ["-Dblas=none", "-Dtests=false"]}]
    )
    """Config settings for the build backend, each a text or a list. ``${NAME}`` is replaced by the variable's value."""
    abi3: PythonVersion | None = Field(default=None, examples=["3.12"])
    """The lowest Python that the project's stable-ABI (abi3) wheel supports. One wheel then serves this and all newer
    Pythons that are not free-threaded: it is built with the lowest of them in the matrix, and tested with each. The audit
    refuses any other wheel. Without this key, each Python builds its own wheel, and two different ones with one name are
    an error."""
    py3: StrictBool = False
    """The project's wheel is for every Python 3 (``py3-none-PLATFORM``), as that of a library which ctypes or cffi loads.
    One wheel then serves all Pythons of the matrix: it is built with the lowest, and tested with each. The audit refuses
    a wheel that does not install on all of them."""
    torch_abi: _TorchRelease | None = Field(default=None, examples=["2.10"])
    """The oldest torch that the project's wheel supports with torch's stable ABI. Cells that differ only in torch share
    one wheel: it is built with the oldest of them in the matrix, tested with each, and requires ``torch>=`` this
    release. The audit refuses a wheel that uses anything else of torch. Needs ``builder.framework = "torch"``."""
    repair: Repair = Repair()
    """How auditwheel repairs the wheel."""
    naming: Naming = Naming()
    """The name of the finished wheel."""
    also_named: tuple[Naming, ...] = Field(
        default=(), examples=[[{"local": "cu${CUDA_TAG}torch${TORCH_MINOR}", "index": "private"}]]
    )
    """Further names for the same build. Each name is a separate wheel; only names and versions differ."""
    max_size: SizeText | None = Field(default=None, examples=["300 MB"])
    """The largest file that the package index accepts from this project. The audit refuses a larger wheel, and PyPI's
    default limit of 100 MiB then does not apply."""
    max_project_size: SizeText | None = Field(default=None, examples=["40 GB"])
    """The space that the package index gives all releases of this project. ``wheel-bakery verify`` and ``plan --size``
    refuse a release that alone takes more. PyPI's default limit is 10 GiB; it applies to wheels for a public index."""
    max_growth: _Growth | None = Field(default=None, examples=["20 %"])
    """How much larger than in the release before a wheel may be. ``wheel-bakery verify --baseline OLD`` refuses a wheel that
    grew more; ``OLD`` has the wheels of that release."""
    variants: Variants = Variants()
    """The labels and properties of wheel variants."""
    requires: tuple[RequirementText, ...] = Field(default=(), examples=[["torch>=2.11"]])
    """Requirements (``Requires-Dist``) in the metadata of the wheel. They replace the project's own requirements of the
    same distributions. A framework adds its requirement, unless its distribution is listed here."""

    @model_validator(mode="after")
    def _one_kind(self) -> Wheel:
        if self.abi3 and self.py3:
            raise invalid("abi3 and py3 exclude each other", "keep abi3 for abi3 wheels, or py3 for py3-none ones")
        return self

    @field_validator("abi3")
    @classmethod
    def _with_gil(cls, value: str | None) -> str | None:
        if value is not None and value.endswith("t"):
            raise invalid(
                f"no free-threaded Python loads an abi3 module; expected another, such as '{value.removesuffix('t')}'",
                "write it without the t; each free-threaded Python has its own wheel",
            )
        return value
