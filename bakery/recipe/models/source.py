"""The source of a project."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, Field, field_validator, model_validator

from bakery.core import dockerignore
from bakery.recipe.models.base import Model
from bakery.recipe.models.text import Line, SizeText

_GIT_URL = re.compile(r"(?:https?|ssh|git|file)://\S+\Z|[\w.-]+@[\w.-]+:\S+\Z")
_GIT_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*\Z")


_LONGEST_PATH = 4096

_OF_A_FOLDER = frozenset(("ignore", "accept", "expected-size", "expected_size"))


def _pattern(value: str) -> str:
    text = dockerignore.normalised(value).removeprefix("!")
    if not text or text == "." or ".." in text.split("/"):
        raise ValueError("expected a pattern of files inside the source, such as 'data' or '**/*.bin'")
    try:
        dockerignore.check_ignored(text)
    except ValueError as error:
        raise ValueError(f"expected a pattern of files inside the source: {error}") from None
    return value


IgnorePatterns = Annotated[tuple[Annotated[Line, AfterValidator(_pattern)], ...], Field(max_length=1000)]


class Source(Model):
    """The source of the project: exactly one of ``path``, ``git`` and ``sdist``.

    The short forms are ``source = "."``, ``source = "git+URL@REF"`` and ``source = "sdist:NAME==VERSION"``.
    """

    short_form: ClassVar[str | None] = "string"

    path: str | None = Field(default=None, examples=[".", "python/pkg"])
    """A folder inside the project, relative to the folder of the recipe."""
    git: Line | None = Field(default=None, examples=["https://github.com/thu-ml/SageAttention.git"])
    """The URL of a git repository, which BuildKit clones."""
    ref: str | None = Field(default=None, examples=["v2.2.0"])
    """The branch, tag or commit of ``git``. Required with ``git``, so that the recipe is unambiguous."""
    sdist: str | None = Field(default=None, examples=["ujson==5.12.0"])
    """``NAME==VERSION``: build from the source distribution of this release, from the configured package index."""
    ignore: IgnorePatterns | None = Field(default=None, examples=[["data", "**/*.bin", "!data/small.bin"]])
    """Files of ``path`` to leave out of the build context, as ``.dockerignore`` patterns relative to ``path``.
    ``.git``, results and caches are always left out. The project's own ``.dockerignore`` is not read."""
    accept: IgnorePatterns | None = Field(default=None, examples=[["tests/keys/*.pem"]])
    """Files that look like secrets but are harmless, as patterns like those of ``ignore``. They cause no warning."""
    expected_size: SizeText | None = Field(default=None, examples=["2 GB"])
    """The size of the build context above which a build shows a warning."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if not isinstance(value, str):
            beside = isinstance(value, dict) and not {"path", "git", "sdist"} & value.keys()
            return {"path": ".", **value} if beside and value.keys() & _OF_A_FOLDER else value
        if value.startswith("sdist:"):
            return {"sdist": value.removeprefix("sdist:")}
        if value.startswith("git+"):
            url, at, ref = value.removeprefix("git+").rpartition("@")
            return {"git": url, "ref": ref} if at and "/" not in ref.rpartition("://")[0] else {"git": value[4:]}
        return {"path": value}

    @field_validator("path")
    @classmethod
    def _inside(cls, value: str | None) -> str | None:
        if value is None:
            return value
        if not value or value.startswith(("/", "~")) or "\\" in value or ".." in value.split("/"):
            raise ValueError("expected a folder inside the project, such as '.' or 'python/pkg'")
        if len(value) > _LONGEST_PATH:
            raise ValueError(f"expected a path of at most {_LONGEST_PATH} characters")
        if any(ord(c) < 32 for c in value):
            raise ValueError("expected a path without control characters")
        return value

    @field_validator("git")
    @classmethod
    def _git_url(cls, value: str | None) -> str | None:
        if value is not None and not _GIT_URL.match(value):
            raise ValueError("expected a git URL, such as 'https://host/owner/project.git'")
        return value

    @field_validator("ref")
    @classmethod
    def _git_ref(cls, value: str | None) -> str | None:
        if value is not None and not _GIT_REF.match(value):
            raise ValueError("expected a branch, a tag or a commit")
        return value

    @field_validator("sdist")
    @classmethod
    def _pinned(cls, value: str | None) -> str | None:
        if value is None:
            return value
        try:
            requirement = Requirement(value)
        except (InvalidRequirement, RecursionError):
            requirement = None
        specifiers = list(requirement.specifier) if requirement else []
        exact = len(specifiers) == 1 and specifiers[0].operator == "==" and "*" not in specifiers[0].version
        if requirement is None or not exact or requirement.url or requirement.extras or requirement.marker:
            raise ValueError("expected NAME==VERSION, such as 'ujson==5.12.0'")
        return f"{requirement.name}=={specifiers[0].version}"

    @model_validator(mode="after")
    def _exactly_one(self) -> Source:
        given = [name for name in ("path", "git", "sdist") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"expected exactly one of path, git and sdist, got {found}")
        if self.git and not self.ref:
            raise ValueError("expected a ref with git: a branch, a tag or a commit")
        if not self.path and any((self.ignore, self.accept, self.expected_size)):
            raise ValueError("ignore, accept and expected-size belong to a path; remove them")
        if self.ref and not self.git:
            raise ValueError("ref belongs to git; remove it or name a git URL")
        return self
