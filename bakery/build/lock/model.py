"""The lock: what the cells of a recipe are made of, as ``bakery.lock`` holds it."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, StrictInt, field_validator

from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import Line, Matching

VERSION = 1
"""Version of the file's form; raised when an older bakery could not read it."""

Sha256 = Annotated[str, Matching(re.compile(r"(?:[0-9a-f]{64})?\Z"), "64 hexadecimal digits")]
Digest = Annotated[str, Matching(re.compile(r"sha256:[0-9a-f]{64}\Z"), "sha256: and 64 hexadecimal digits")]


Commit = Annotated[str, Matching(re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z"), "a commit: 40 hexadecimal digits")]
FileName = Annotated[
    str,
    Matching(
        re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._+!~-]*|(?:git\+)?(?:https?|ssh)://[^\s\"'\\]+)\Z"),
        "the name of a file, or the address of a repository",
    ),
]
Address = Annotated[
    str, Matching(re.compile(r"(?:git\+)?(?:https?|ssh)://[^\s\"'\\]+\Z"), "an address, such as 'https://host/x.whl'")
]
NormalName = Annotated[
    str, Matching(re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z"), "a normalised name, such as 'cuda-toolkit'")
]
VersionText = Annotated[str, Matching(re.compile(r"[0-9A-Za-z][0-9A-Za-z.!+_-]*\Z"), "a version, such as '1.0'")]


class LockedFile(Model):
    """A file of the package index, or what a requirement names by its address."""

    name: NormalName
    """The distribution, its name normalised."""
    version: VersionText
    """Its version."""
    sha256: Sha256 = ""
    """The file's SHA-256; empty for a repository, which its commit holds."""
    origin: Address | None = None
    """The address that a requirement names; none for what comes from the index."""


class LockedPackages(Model):
    """Packages of the index that one step installs."""

    place: Line
    """Where they are installed: ``tools``, ``build``, ``test``, ``cuda-13``, …"""
    cells: tuple[Line, ...]
    """The cells that have exactly these."""
    requirements: tuple[Line, ...]
    """What was asked for: requirements and options of pip."""
    files: tuple[Line, ...]
    """What it came to; each is a key of ``files``."""


class LockedSystem(Model):
    """Packages of the base's own manager, and programs, that an image has beside those of the image below it."""

    image: Line
    """The stage: ``builder``, ``native-tools``, ``test-env``."""
    cells: tuple[Line, ...]
    """The cells that have exactly these."""
    packages: dict[Line, Line]
    """Package → version."""
    tools: dict[Line, Line]
    """Program → what it says of its version."""


class Lock(Model):
    """What the cells of a recipe are made of."""

    version: StrictInt = Field(json_schema_extra={"const": VERSION})
    """Version of the file's form."""
    recipe: Line
    """The recipe's name."""
    images: dict[Line, dict[Literal["linux/amd64", "linux/arm64"], Digest]] = Field(default_factory=dict)
    """Base image → platform → digest."""
    sources: dict[Line, Commit] = Field(default_factory=dict)
    """Git address with its ref → commit."""
    suites: dict[Line, Line] = Field(default_factory=dict)
    """Debian suite → date of its Release file when it was locked."""
    files: dict[FileName, LockedFile] = Field(default_factory=dict)
    """Name of a file, or address of a repository → what it is."""
    packages: tuple[LockedPackages, ...] = ()
    """Packages of the index, each set once for all cells that share it."""
    system: tuple[LockedSystem, ...] = ()
    """Packages of the base, each set once for all cells that share it."""

    @field_validator("version")
    @classmethod
    def _check_version(cls, value: int) -> int:
        if value != VERSION:
            raise invalid(f"expected {VERSION}: another version of bakery wrote this lock")
        return value
