"""The lock as ``bakery.lock`` has it, and the materials of a cell as the target ``materials`` exports them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictInt, field_validator

from bakery.core.errors import BakeError
from bakery.core.inside import Inside
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import Line, Matching
from wheel_audit.readers import json_of

VERSION = 1
"""Version of the file's form; raised when an older bakery could not read it."""

Sha256 = Annotated[str, Matching(re.compile(r"(?:[0-9a-f]{64})?\Z"), "64 hexadecimal digits")]
Digest = Annotated[str, Matching(re.compile(r"sha256:[0-9a-f]{64}\Z"), "sha256: and 64 hexadecimal digits")]


Commit = Annotated[str, Matching(re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z"), "a commit: 40 hexadecimal digits")]
FileName = Annotated[
    str,
    Matching(
        re.compile(r"""(?:[A-Za-z0-9][A-Za-z0-9._+!~-]*|(?:git\+)?(?:https?|ssh)://[^\s"'\\]+)\Z"""),
        "the name of a file, or the address of a repository",
    ),
]
Address = Annotated[
    str,
    Matching(re.compile(r"""(?:git\+)?(?:https?|ssh)://[^\s"'\\]+\Z"""), "an address, such as 'https://host/x.whl'"),
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


_MAX_BYTES = 8 << 20
"""Bytes of all files of a folder: a build that lists 10,000 packages has 2 MB."""

_MOST_FILES = 1000


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages of one place; ``files``: file name, or address of a repository → the file."""

    requirements: tuple[str, ...] = ()
    files: Mapping[str, LockedFile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class System:
    """The additions of an image to the one below it.

    Attributes:
        packages: package of the base's package manager → version.
        tools: program → its version output.
        purls: package → its package URL; not in locks.
        sums: package → SHA-256 of dpkg's list of its files and their MD5 sums; not in locks.
    """

    packages: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    purls: Mapping[str, str] = field(default_factory=dict)
    sums: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Materials:
    """The inputs of a cell.

    Attributes:
        images: (name in the files, platform) → digest.
        sources: git address with its ref → commit.
        packages: place → its packages.
        system: stage → the additions of its image.
        suites: Debian suite → date of its Release file.
    """

    images: Mapping[tuple[str, str], str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, Packages] = field(default_factory=dict)
    system: Mapping[str, System] = field(default_factory=dict)
    suites: Mapping[str, str] = field(default_factory=dict)


def read_materials(folder: Path) -> Materials:
    """Return the exported materials, without images and sources, which the engine knows. Raises BakeError."""
    inside = Inside(folder)
    try:
        packages = {place: _packages(document) for place, document in _documents(inside, "packages").items()}
        documents = _documents(inside, "system")
        suites = {str(key): str(value) for key, value in documents.pop("suites", {}).items()}
        system = {
            name: System(
                _texts(item["packages"]),
                _texts(item["tools"]),
                _texts(item.get("purls", {})),
                _texts(item.get("sums", {})),
            )
            for name, item in documents.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BakeError(f"cannot read the materials of {folder.name}: {error}") from error
    return Materials(packages=packages, system=system, suites=suites)


def _documents(inside: Inside, folder: str) -> dict[str, dict[str, object]]:
    """Return name → content of the JSON files in a folder that a container exported."""
    found, left = {}, _MAX_BYTES
    for path in inside.names(folder, most=_MOST_FILES):
        if not path.endswith(".json"):
            continue
        data = inside.read(path, left)
        left -= len(data)
        document = json_of(data)
        if not isinstance(document, dict):
            raise TypeError(f"{path} is not a table")
        found[path.removeprefix(f"{folder}/").removesuffix(".json")] = document
    return found


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError("expected a table")
    return {str(key): str(item) for key, item in sorted(value.items())}


def _packages(document: Mapping[str, object]) -> Packages:
    listed, words = document["packages"], document["requirements"]
    if not isinstance(listed, list) or not isinstance(words, list):
        raise TypeError("expected lists")
    files = {}
    for item in listed:
        file = LockedFile(
            name=item["name"], version=item["version"], sha256=item["sha256"], origin=item.get("origin") or None
        )
        files[str(item["file"] or item["origin"])] = file
    return Packages(tuple(map(str, words)), dict(sorted(files.items())))
