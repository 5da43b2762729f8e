"""Continuous integration: the workflow that `bakery generate` writes beside the other files."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, field_validator

from bakery.core import names
from bakery.recipe.models.base import Model
from bakery.recipe.models.text import RequirementText, WorkflowLine, distinct, unevaluated

_REF = re.compile(r"!?(?:\*|(?:[^\x00-\x20\x7f~^:\\?*+\[\]]|\[[A-Za-z0-9_-]+\])[?+]?)+\Z")
_RANGE = re.compile(r"([A-Za-z0-9])-([A-Za-z0-9])(?=[^\[]*\])")


def _ref(value: str) -> str:
    name = value.removeprefix("!")
    odd = not name or ".." in name or "//" in name or name.startswith("/") or name.endswith(("/", "."))
    if odd or not _REF.match(value) or any(low > high for low, high in _RANGE.findall(value)):
        raise ValueError("expected a filter of branches or tags as GitHub has them, such as 'main' or 'release/*'")
    return value


_Refs = Annotated[tuple[Annotated[WorkflowLine, AfterValidator(_ref)], ...], Field(min_length=1)]


class Ci(Model):
    """A workflow for GitHub Actions: the cells in jobs, then all wheels checked together, attested and published.

    Only a recipe with this table has a workflow; in a workspace ``[workspace.ci]`` stands for recipes without one.
    """

    branches: _Refs | None = Field(default=None, examples=[["main", "release/*"]])
    """Branches of which every push is baked, as GitHub's filters write them; pull requests always are."""
    tags: _Refs | None = Field(default=None, examples=[["v*"]])
    """Tags that are releases: what is baked for one of them is published."""
    runners: dict[WorkflowLine, WorkflowLine] | None = Field(
        default=None, examples=[{"linux/arm64": "ubuntu-24.04-arm"}]
    )
    """The label of the runner for each platform; by default GitHub's own ones (``ubuntu-24.04``, ``ubuntu-24.04-arm``,
    ``macos-15``, ``macos-15-intel``, ``windows-2025``, ``windows-11-arm``), which emulate nothing."""
    max_jobs: Annotated[int, Field(ge=1, le=256, strict=True)] | None = None
    """Jobs that cells are packed into; what compiles once is never split."""
    timeout: Annotated[int, Field(ge=30, le=7200, strict=True)] | None = None
    """Minutes that a job may take. Bakery ends 15 minutes before, so that a rerun goes on with what is finished."""
    install: Annotated[RequirementText, AfterValidator(unevaluated)] | None = Field(
        default=None, examples=["wheel-bakery @ git+https://github.com/OWNER/bakery@v0.1.0"]
    )
    """What pip installs as bakery; by default the very version that generates the workflow."""
    cache: Literal["gha", "none"] | None = None
    """The layer cache of the jobs: GitHub's, or none; by default GitHub's where the estimate of all layers fits into it."""
    free_disk: StrictBool | None = None
    """Remove what GitHub's runners have and bakes never use; by default where the plan's estimate asks for it."""
    attest: StrictBool | None = None
    """Attest where the wheels were built, for all but pull requests."""
    publish: WorkflowLine | None = Field(default=None, examples=["pypi"])
    """The GitHub environment from which releases go to the package index by trusted publishing: the wheels without a
    local version."""
    publish_url: WorkflowLine | None = Field(default=None, examples=["https://test.pypi.org/legacy/"])
    """The upload address of another index than PyPI."""
    pages: StrictBool | None = None
    """Keep a static package index on GitHub Pages, to which each release adds the wheels with a local version (all of
    them, where there are none)."""

    @field_validator("runners")
    @classmethod
    def _known_platforms(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        wrong = [platform for platform in value or () if platform not in names.MACHINES]
        if wrong:
            raise ValueError(f"expected {' or '.join(names.MACHINES)}, got {', '.join(map(repr, wrong))}")
        return value

    @field_validator("branches", "tags")
    @classmethod
    def _distinct(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if value is None else distinct(value)
