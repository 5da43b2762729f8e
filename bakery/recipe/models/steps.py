"""Steps of a build: the native step, the test, the tools of an image, and the secrets that steps receive."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, field_validator, model_validator

from bakery.core import target_kinds
from bakery.core.environment import is_reserved
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import (
    REFERENCE,
    AxisName,
    EnvironmentName,
    Line,
    Matching,
    ModuleName,
    ProgramName,
    RequirementText,
    SystemPackage,
    Text,
    distinct,
    unevaluated,
)


def _inside(path: str) -> str:
    if "$" in path:
        raise invalid("expected a path inside the source, without variables, such as 'tests'", "write the name itself")
    return _inside_with_variables(path)


def _inside_with_variables(path: str) -> str:
    text = REFERENCE.sub("x", path)
    if not text or text.startswith(("/", "~")) or "\\" in text or ".." in text.split("/") or "$" in text:
        raise invalid(
            "expected a path inside the source, such as 'tests'",
            "name files as they are called in the source, without '..'",
        )
    return path


SourcePath = Annotated[Line, AfterValidator(_inside)]
SourcePathOfCell = Annotated[Line, AfterValidator(_inside_with_variables)]
"""Such a path, which may refer to variables."""


class Test(Model):
    """The test target. It loads all shared objects of the wheel, then imports modules, then runs the command."""

    requirements: tuple[RequirementText, ...] = Field(
        default=(), examples=[["pytest", "cuda-toolkit[cudart]==${CUDA_VERSION}"]]
    )
    """Python packages to install for the test, in addition to those that the wheel requires."""
    imports: tuple[ModuleName, ...] = ()
    """Modules to import from the installed wheel. A stub replaces the GPU driver."""
    command: Line | None = Field(default=None, examples=["pytest tests"])
    """A shell command. It runs in a folder that contains only ``files``, without a GPU driver and without the stub."""
    files: tuple[SourcePath, ...] = Field(default=(), examples=[["tests"]])
    """Files and folders of the source to copy for the command."""
    network: StrictBool = False
    """Allow the command to use the network. Off by default; list what it needs in ``requirements`` and ``files``
    instead."""
    gpu: StrictBool = False
    """The command needs a GPU. It does not run in the bake, but with ``wheel-bakery gpu-test`` on a machine that has one.
    The bake still loads the shared objects and imports the modules."""
    load_shared_objects: StrictBool = True
    """Load all shared objects and resolve all their symbols. This finds errors that an import alone does not find."""


_PYTHON = "PYTHON_VERSION"

EXTRA = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
"""The normalised name of an extra."""

_Extra = Annotated[
    Line,
    Matching(
        EXTRA,
        "the normalised name of an extra, such as 'cuda${CUDA_MAJOR}'",
        "use lower-case letters, digits and single hyphens",
        references=True,
    ),
]


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
    into: SourcePathOfCell = Field(examples=["src/pkg/lib", "src/pkg/cu${CUDA_MAJOR}"])
    """The folder of the source that the result is copied to before a wheel is built; the project must package it."""
    merge: Annotated[tuple[AxisName, ...], AfterValidator(distinct)] = Field(default=(), examples=[["cuda"]])
    """Axes whose values share a wheel: the step is built for each of their values, and every wheel has all results, each in
    its own folder (``into``). Their overrides change variables, ``native`` and the toolkit."""
    extra: _Extra | None = Field(default=None, examples=["cuda${CUDA_MAJOR}"])
    """The extra of the wheel that users install for one of the merged builds. It gets NVIDIA's wheels of ``builder.components``,
    from this CUDA release on and below the next major, beside what the project lists for it. The test then runs once for
    each extra, in an environment of its own, and loads no shared object of another build."""
    requirements: tuple[RequirementText, ...] = Field(default=(), examples=[["cmake>=3.26", "ninja"]])
    """Python packages with programs that the command calls. They run on any Python of the base image."""
    system_packages: tuple[SystemPackage, ...] = ()
    """Packages to install with the package manager of the base image."""
    environment: dict[EnvironmentName, Line] = Field(default={}, examples=[{"CUDAARCHS": "${CUDA_ARCHS}"}])
    """Environment variables of the command. ``builder.environment`` does not apply to it."""
    network: StrictBool = False
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
        if self.extra and not self.merge:
            raise invalid(
                "extra names one of several merged builds, and nothing is merged",
                'add merge = ["cuda"], or list the extra in the project\'s optional-dependencies',
            )
        texts = (self.command, *self.requirements, *self.environment.values())
        if any(name == _PYTHON for text in texts for name in REFERENCE.findall(text)):
            raise invalid(
                f"expected no ${{{_PYTHON}}}: the native step serves every Python",
                "leave it out here; a step for one Python is the wheel's own build",
            )
        return self


class Image(Model):
    """The image target. A recipe with this table builds an image with these tools instead of wheels."""

    requirements: Annotated[tuple[RequirementText, ...], AfterValidator(distinct)] = Field(
        examples=[["iree-base-compiler==${IREE_VERSION}"]]
    )
    """Python packages to install. Each is checked against its hash from the lock file or the package index."""
    system_packages: tuple[SystemPackage, ...] = ()
    """Packages to install with the package manager of the base image."""
    programs: dict[ProgramName, SourcePath] = Field(default={}, examples=[{"ptxas": "nvidia/cu13/bin/ptxas"}])
    """Programs inside packages that pip does not put on ``PATH``: name → path below ``site-packages``."""


def _plain(value: str) -> str:
    if not value:
        raise invalid("expected text", got="none")
    if REFERENCE.search(value):
        raise invalid(
            "expected no ${NAME}: the source of a secret depends on no variable",
            "write it out; a program that needs a value can read its environment",
        )
    return value


PlainLine = Annotated[Line, AfterValidator(_plain)]


class Secret(Model):
    """A secret for some steps. Exactly one of ``env``, ``file`` and ``command`` is its source.

    Steps receive it as a BuildKit secret mount. Its value is in no image, file, log or cache key. A cached step
    therefore does not run again if only the secret changed.
    """

    env: EnvironmentName | None = Field(default=None, examples=["HF_TOKEN"])
    """An environment variable of the machine that runs Bakery. Needs ``--allow``. Variables that begin with ``BAKERY_`` or
    ``ACTIONS_`` are refused."""
    file: Annotated[PlainLine, AfterValidator(unevaluated)] | None = Field(
        default=None, examples=["tokens/index.netrc"]
    )
    """A file on this machine, relative to the folder of the recipe. A file outside the project needs ``--allow``."""
    command: tuple[PlainLine, ...] | None = Field(default=None, examples=[["pass", "show", "index/token"]])
    """A program and its arguments, run on this machine without a shell. Its output, without the final line break, is
    the secret. Needs ``--allow``."""
    steps: Annotated[tuple[target_kinds.Phase, ...], AfterValidator(distinct)] = Field(
        examples=[["requirements"], ["test"]]
    )
    """The steps that receive the secret: ``fetch`` (downloads the source), ``requirements`` (all steps that install
    Python packages), ``native`` (``native.command``), ``compile`` (builds the wheel), ``test`` (``test.command``)."""
    variable: EnvironmentName | None = Field(default=None, examples=["HF_TOKEN"])
    """The environment variable that holds the secret in these steps. By default, it is in the file
    ``/run/secrets/NAME``."""

    @field_validator("env")
    @classmethod
    def _is_no_one_elses(cls, value: str | None) -> str | None:
        if value is not None and is_reserved(value):
            raise invalid(
                f"{value} belongs to Bakery or to the CI runner: no recipe gets it",
                "give the secret a variable of its own, such as HF_TOKEN",
            )
        return value

    @field_validator("command")
    @classmethod
    def _has_a_program(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and not value:
            raise invalid(
                "expected a program and its arguments, such as ['pass', 'show', 'token']",
                "write each argument as an entry of its own: no shell splits them",
            )
        return value

    @model_validator(mode="after")
    def _exactly_one(self) -> Secret:
        given = [name for name in ("env", "file", "command") if getattr(self, name) is not None]
        if len(given) != 1:
            raise invalid(
                "expected exactly one of env, file and command",
                'write env = "NAME", file = "PATH" or command = ["PROGRAM", "ARGUMENT"]',
                got=" and ".join(given) or "none",
            )
        return self
