"""The source of a project."""

from __future__ import annotations

import posixpath
import re
from typing import Annotated, Any, ClassVar

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, Field, field_validator, model_validator

from bakery.core import dockerignore
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import Line, Matching, SizeText

GitUrl = Annotated[
    str,
    Matching(
        r"(?:https?|ssh|git|file)://[^\s\x00-\x1f\x7f]+|[\w.-]+@[\w.-]+:[^\s\x00-\x1f\x7f]+",
        "a git URL, such as 'https://host/owner/project.git'",
        "write it as git clone takes it",
    ),
    # Bakery adds .git to some.
    AfterValidator(lambda value: value.rstrip("/")),
]
GitRef = Annotated[
    str, Matching("[A-Za-z0-9][A-Za-z0-9._/-]*", "a branch, a tag or a commit", "write it as git log shows it")
]

_LONGEST_PATH = 4096
_AS_IGNORED = "write it as in a .dockerignore, relative to the source's folder"


def _folder(value: str, place: str, move: str) -> str:
    if not value or value.startswith(("/", "~")) or "\\" in value or ".." in value.split("/"):
        raise invalid(f"expected a folder inside the {place}, such as '.' or 'python/pkg'", move)
    if len(value) > _LONGEST_PATH:
        raise invalid(f"expected a path of at most {_LONGEST_PATH} characters")
    if any(ord(c) < 32 for c in value):
        raise invalid("expected a path without control characters", "remove the control characters")
    return value


_OF_A_FOLDER = frozenset(("ignore", "accept", "expected-size", "expected_size"))


def _pattern(value: str) -> str:
    text = dockerignore.normalised(value).removeprefix("!")
    if not text or text == "." or ".." in text.split("/"):
        raise invalid("expected a pattern of files inside the source, such as 'data' or '**/*.bin'", _AS_IGNORED)
    try:
        dockerignore.check_ignored(text)
    except ValueError as error:
        raise invalid(f"expected a pattern of files inside the source: {error}", _AS_IGNORED) from None
    return value


IgnorePatterns = Annotated[tuple[Annotated[Line, AfterValidator(_pattern)], ...], Field(max_length=1000)]


class Source(Model):
    """The source of the project: exactly one of ``path``, ``git`` and ``sdist``.

    The short forms are ``source = "."``, ``source = "git+URL@REF"`` and ``source = "sdist:NAME==VERSION"``.
    """

    short_form: ClassVar[str | None] = "string"

    path: str | None = Field(default=None, examples=[".", "python/pkg"])
    """A folder inside the project, relative to the folder of the recipe. No part of the path may be a link."""
    git: GitUrl | None = Field(default=None, examples=["https://github.com/thu-ml/SageAttention.git"])
    """The URL of a git repository, which BuildKit clones."""
    ref: GitRef | None = Field(default=None, examples=["v2.2.0"])
    """The branch, tag or commit of ``git``. Required with ``git``, so that the recipe is unambiguous."""
    sdist: str | None = Field(default=None, examples=["ujson==5.12.0"])
    """``NAME==VERSION``: build from the source distribution of this release, from the configured package index."""
    subdirectory: str | None = Field(default=None, examples=["compiler"])
    """The folder of the Python package inside the source, where ``pyproject.toml`` or ``setup.py`` is, if its build needs
    files beside that folder. The whole source is in ``/src``; paths of other keys and commands are relative to it."""
    ignore: IgnorePatterns = Field(default=(), examples=[["data", "**/*.bin", "!data/small.bin"]])
    """Files of ``path`` to leave out of the build context, as ``.dockerignore`` patterns relative to ``path``.
    Repositories (``.git``) and output folders are always left out. Results and caches are, too, unless an exception
    (``!wheels``) brings them back. The project's own ``.dockerignore`` is not read."""
    accept: IgnorePatterns = Field(default=(), examples=[["tests/keys/*.pem"]])
    """Files that look like secrets but are harmless, as patterns like those of ``ignore``. They cause no warning, and may
    be in the wheel even if git ignores them, as files that the build makes."""
    expected_size: SizeText = Field(default="500 MB", examples=["2 GB"])
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
            # As pip writes it: git+URL@REF#subdirectory=FOLDER.
            value, _, folder = value.removeprefix("git+").partition("#subdirectory=")
            more = {"subdirectory": folder} if folder else {}
            # An @ before the path is that of a user: ssh://git@host/…, git@host:….
            path = value.find("/", value.find("://") + 3) if "://" in value else value.find(":")
            url, _, ref = value.rpartition("@")
            return {"git": url, "ref": ref, **more} if 0 <= path < len(url) else {"git": value, **more}
        return {"path": value}

    @field_validator("path")
    @classmethod
    def _inside(cls, value: str | None) -> str | None:
        return (
            value
            if value is None
            else _folder(value, "project", "move the source below the recipe's folder, or name a git URL")
        )

    @field_validator("subdirectory")
    @classmethod
    def _inside_source(cls, value: str | None) -> str | None:
        if value is None:
            return value
        value = posixpath.normpath(_folder(value, "source", "name the folder as it is in the source"))
        if not re.fullmatch(r"[A-Za-z0-9_.+@~/-]+", value):
            raise invalid("expected a folder with letters, digits and _ . + @ ~ - only", "rename the folder")
        return None if value == "." else value

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
            raise invalid(
                "expected NAME==VERSION, such as 'ujson==5.12.0'", "pin one release, so that the recipe means one thing"
            )
        return f"{requirement.name}=={specifiers[0].version}"

    @model_validator(mode="after")
    def _exactly_one(self) -> Source:
        given = [name for name in ("path", "git", "sdist") if getattr(self, name) is not None]
        if len(given) != 1:
            raise invalid(
                "expected exactly one of path, git and sdist",
                'write source = ".", source = "git+URL@REF" or source = "sdist:NAME==VERSION"',
                got=" and ".join(given) or "none",
            )
        if self.git and not self.ref:
            raise invalid(
                "expected a ref with git: a branch, a tag or a commit",
                'write source = "git+URL@REF", or add ref = "…"',
            )
        of_path = self.model_fields_set & {"ignore", "accept", "expected_size"}
        if not self.path and any(getattr(self, name) for name in of_path):
            raise invalid(
                "ignore, accept and expected-size belong to a path; remove them", "a fetched source comes without them"
            )
        if self.ref and not self.git:
            raise invalid("ref belongs to git; remove it or name a git URL", "remove ref, or replace it by a git URL")
        return self
