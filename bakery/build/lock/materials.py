"""The materials of a cell, as the target ``materials`` exports them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bakery.build.lock.model import LockedFile
from bakery.core.errors import BakeError
from bakery.core.files import read_plain

_MAX_FILE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages of one place; ``files``: file name, or address of a repository → the file."""

    requirements: tuple[str, ...]
    files: Mapping[str, LockedFile]


@dataclass(frozen=True, slots=True)
class System:
    """The additions of an image to the one below it.

    Attributes:
        packages: package of the base's package manager → version.
        tools: program → its version output.
        purls: package → its package URL; not in locks.
        sums: package → SHA-256 of dpkg's list of its files and their MD5 sums; not in locks.
    """

    packages: Mapping[str, str]
    tools: Mapping[str, str]
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


def read(folder: Path) -> Materials:
    """Return the exported materials, without images and sources, which the engine knows. Raises BakeError."""
    try:
        packages = {path.stem: _packages(_json(path)) for path in sorted((folder / "packages").glob("*.json"))}
        documents = {path.stem: _json(path) for path in sorted((folder / "system").glob("*.json"))}
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
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BakeError(f"cannot read the materials of {folder.name}: {error}") from error
    return Materials(packages=packages, system=system, suites=suites)


def _json(path: Path) -> dict[str, object]:
    document = json.loads(read_plain(path, _MAX_FILE_BYTES))
    if not isinstance(document, dict):
        raise TypeError(f"{path.name} is not a table")
    return document


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
