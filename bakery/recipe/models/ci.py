"""Continuous integration: the workflow that `wheel-bakery generate` writes with the other files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StrictBool, field_validator

from bakery.core import cell_ids
from bakery.core.errors import UsageError
from bakery.core.store_address import parse_place
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import RequirementText, WorkflowLine, distinct, unevaluated

_REF = re.compile(r"!?(?:\*|(?:[^\x00-\x20\x7f~^:\\?*+\[\]]|\[[A-Za-z0-9_-]+\])[?+]?)+\Z")
_RANGE = re.compile(r"([A-Za-z0-9])-([A-Za-z0-9])(?=[^\[]*\])")


_CRON = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""The least and the largest number of each field of a schedule, as GitHub reads it."""


def _check_ref(value: str) -> str:
    name = value.removeprefix("!")
    odd = not name or ".." in name or "//" in name or name.startswith("/") or name.endswith(("/", "."))
    if odd or not _REF.match(value) or any(low > high for low, high in _RANGE.findall(value)):
        raise invalid("expected a filter of branches or tags as GitHub has them, such as 'main' or 'release/*'")
    return value


def _check_cron(value: str) -> str:
    fields = value.split(" ")
    if len(fields) != len(_CRON) or not all(map(_is_in_range, fields, _CRON)):
        raise invalid(
            "expected five fields: minute, hour, day, month, day of the week",
            "write numbers, *, ranges (1-5), steps (*/2) and lists (1,15), such as '17 3 * * *' for 3:17 UTC each night",
        )
    return value


def _is_in_range(field: str, limits: tuple[int, int]) -> bool:
    """Whether a field of a schedule has only numbers within limits."""
    for part in field.split(","):
        match = re.fullmatch(r"(?:\*|([0-9]{1,2})(?:-([0-9]{1,2}))?)(?:/([1-9][0-9]?))?", part)
        if not match:
            return False
        low, high = (int(match[at] or match[1] or limits[0]) for at in (1, 2))
        if not limits[0] <= low <= high <= limits[1]:
            return False
    return True


def _check_store(value: str) -> str:
    try:
        place = parse_place(value)
    except UsageError as error:
        raise invalid(f"expected the address of a store: {error.reason.partition(': ')[2]}", error.hint) from error
    if isinstance(place, Path):
        raise invalid("expected the address of a store", "write redis://…, s3://… or https://…")
    return value


_Refs = Annotated[
    tuple[Annotated[WorkflowLine, AfterValidator(_check_ref)], ...], Field(min_length=1), AfterValidator(distinct)
]


class TestPublish(Model):
    """An index on which a release is tried first. Both keys are needed: what is published there is never a default."""

    __test__: ClassVar[bool] = False

    environment: WorkflowLine = Field(examples=["testpypi"])
    """The GitHub environment for trusted publishing to it."""
    url: WorkflowLine = Field(examples=["https://test.pypi.org/legacy/"])
    """Its upload URL."""


class Ci(Model):
    """A GitHub Actions workflow: builds the cells in jobs, then verifies, attests and publishes all wheels together.

    Only a recipe with this table has a workflow. In a workspace, ``[workspace.ci]`` applies to recipes without this
    table.
    """

    branches: _Refs = Field(default=("main",), examples=[["main", "release/*"]])
    """Branches whose pushes are built, in GitHub's filter syntax. Pull requests are always built."""
    tags: _Refs = Field(default=("v*",), examples=[["v*"]])
    """Tags that are releases, in GitHub's filter syntax. The wheels of a release are published."""
    pull_request: (
        Literal["all", "cover", "first"]
        | Annotated[tuple[WorkflowLine, ...], Field(min_length=1), AfterValidator(distinct)]
    ) = Field(default="all", examples=["cover", ["cp312-*", "!*-win_*"]])
    """The cells that a pull request builds: ``all``, ``cover`` (few cells, in which every pair of values of two axes occurs
    that the matrix has), ``first`` (the first cell of each platform), or globs as for ``--only``; ``!GLOB`` leaves cells
    out. Pushes to branches and tags always build all cells."""
    schedule: Annotated[WorkflowLine, AfterValidator(_check_cron)] | None = Field(default=None, examples=["17 3 * * *"])
    """When all cells of the default branch are built besides: minute, hour, day, month and day of the week in UTC, as cron
    writes them. Nothing is published."""
    nightly: Annotated[int, Field(ge=1, le=365, strict=True)] | None = Field(default=None, examples=[14])
    """For how many days the GitHub pre-release ``nightly`` keeps the wheels that ``schedule`` built. Their version must be one
    of development (``1.4.0.dev7``), as setuptools-scm and its like make them after a tag. Needs ``schedule``."""
    sdist: StrictBool = False
    """Also build the source distribution, bake one wheel from it, and compare that wheel's files with those of the wheel
    that the repository gives: a file that the archive lacks stops the release, another text of one is a warning. It is
    attested and published with the wheels."""
    runners: dict[WorkflowLine, WorkflowLine] = Field(default={}, examples=[{"linux/arm64": "ubuntu-24.04-arm"}])
    """The runner label of each platform. By default, GitHub's runner of the same architecture, without emulation:
    ``ubuntu-24.04``, ``ubuntu-24.04-arm``, ``macos-15``, ``macos-15-intel``, ``windows-2025``, ``windows-11-arm``."""
    gpu_runner: (
        WorkflowLine | Annotated[tuple[WorkflowLine, ...], Field(min_length=1), AfterValidator(distinct)] | None
    ) = Field(default=None, examples=["gpu-t4", ["gpu-a100", "gpu-h100"]])
    """The label of a Linux runner with an NVIDIA GPU, or several. A job on each tests the wheels on its GPU, and nothing is
    attested or published before all passed. Needs ``test.gpu = true``."""
    max_jobs: Annotated[int, Field(ge=1, le=256, strict=True)] = 256
    """The maximum number of jobs for the cells. Cells that share a compile stay in one job."""
    timeout: Annotated[int, Field(ge=30, le=7200, strict=True)] = 350
    """The time limit of a job, in minutes. Bakery stops 15 minutes earlier, so that a rerun can continue with the
    finished wheels."""
    install: (
        Annotated[tuple[Annotated[RequirementText, AfterValidator(unevaluated)], ...], Field(min_length=1)] | None
    ) = Field(default=None, examples=[["wheel-audit @ file:packages/wheel-audit", "wheel-bakery @ file:."]])
    """The requirements from which pip installs Bakery. By default, the version that generated the workflow."""
    cache: Literal["gha", "none"] | None = None
    """The layer cache of the jobs. By default, GitHub's cache if the estimated size of all layers fits into it,
    otherwise none. An explicit ``none`` also turns off the compiler cache between runs."""
    compiler_cache: Annotated[WorkflowLine, AfterValidator(_check_store)] | None = Field(
        default=None, examples=["s3://wheels-cache/objects?region=eu-west-1"]
    )
    """The store that shares compiled objects between jobs and runs (``redis://``, ``s3://``, ``https://``), instead of
    GitHub's cache. Pull requests only read it; releases do not use it. User and password are the secrets
    ``BAKERY_COMPILER_CACHE_USER`` and ``BAKERY_COMPILER_CACHE_PASSWORD`` of the GitHub environment ``bake``; for pull
    requests, ``BAKERY_COMPILER_CACHE_READ_USER`` and ``BAKERY_COMPILER_CACHE_READ_PASSWORD``."""
    free_disk: StrictBool | None = None
    """Remove preinstalled files that no build uses from GitHub's runners. By default, only if the estimated size of the
    layers requires it."""
    attest: StrictBool = True
    """Attest the build provenance of the wheels, except in pull requests."""
    publish: WorkflowLine | None = Field(default=None, examples=["pypi"])
    """The GitHub environment for trusted publishing. Releases upload the wheels without a local version to the package
    index."""
    publish_url: WorkflowLine | None = Field(default=None, examples=["https://test.pypi.org/legacy/"])
    """The upload URL of the package index, if it is not PyPI."""
    test_publish: TestPublish | None = None
    """The index on which a release is tried first: ``publish`` uploads nothing that this index refused. Needs ``publish``."""
    github_release: StrictBool = False
    """Attach all wheels to the GitHub release of the tag, which is created if there is none. Files are never replaced."""
    pages: StrictBool = False
    """Keep a static package index on GitHub Pages. Each release adds its wheels with a local version, or all its wheels
    if none has one."""

    @field_validator("runners")
    @classmethod
    def _known_platforms(cls, value: dict[str, str]) -> dict[str, str]:
        unknown = [platform for platform in value if platform not in cell_ids.MACHINES]
        if unknown:
            raise invalid(
                f"expected {' or '.join(cell_ids.MACHINES)}", got=", ".join(map(repr, unknown)), quotes_value=True
            )
        return value
