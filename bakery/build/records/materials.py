"""Packages that made a wheel: of the index and of the base's own manager, as materials and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote

from pydantic import ValidationError

from bakery.build.lock.materials import Materials, Packages
from bakery.build.lock.model import LockedFile
from bakery.build.records.buildkit import Material, without_user
from bakery.build.records.read import Provenance
from bakery.core.errors import UnavailableError
from bakery.plan.values import Json
from bakery.recipe.problems import shorten

SOURCE = "source"
"""The place of a source archive, which is no package of the build."""

SUMS = "dpkgMd5sums"
"""The digest of a Debian package: SHA-256 of dpkg's list of its files and their MD5 sums.

The archive that it came in is not kept in an image.
"""


def packages(materials: Materials) -> Iterator[Material]:
    """Yield the materials of a wheel that are packages, each once, and the source archive where there is one."""
    places: dict[tuple[str, LockedFile], list[str]] = {}
    for place, item in materials.packages.items():
        for name, file in item.files.items():
            places.setdefault((name, file), []).append(place)
    for (name, file), file_places in places.items():
        yield _of_index(name, file, sorted(file_places))
    for image, system in materials.system.items():
        for name, version in system.packages.items():
            digest = {SUMS: system.sums[name]} if name in system.sums else {}
            notes: dict[str, Json] = {"version": version, "image": image}
            yield Material(f"{name} {version}", "system", system.purls.get(name, ""), digest, notes)


def _of_index(name: str, file: LockedFile, places: list[str]) -> Material:
    uri = without_user(file.origin) if file.origin else f"pkg:pypi/{file.name}@{quote(file.version, safe=':')}"
    commit = "" if file.sha256 else (file.origin or "").partition("#")[0].rpartition("@")[2]
    digest = {"sha256": file.sha256} if file.sha256 else {"gitCommit": commit}
    place_names: list[Json] = [*places]
    notes: dict[str, Json] = {
        "version": file.version,
        "file": "" if file.origin == name else name,
        "places": place_names,
    }
    return Material(f"{file.name} {file.version}", "source" if places == [SOURCE] else "package", uri, digest, notes)


def requirements(materials: Materials) -> dict[str, Json]:
    """Return place → what was asked for there."""
    return {place: [*map(without_user, item.requirements)] for place, item in sorted(materials.packages.items())}


def locked_from_provenance(recorded: Provenance) -> Materials:
    """Return what a wheel was made of, as far as a build can be held to it: packages of the index, commits of sources.

    Raises:
        UnavailableError: the record holds what is no package.
    """
    files: dict[str, dict[str, LockedFile]] = {}
    for item in recorded.materials:
        for place in item.places:
            version = str(item.notes["version"])
            origin = None if item.uri.startswith("pkg:") else item.uri
            name = item.name.removesuffix(f" {version}")
            try:
                file = LockedFile(name=name, version=version, sha256=item.digest.get("sha256", ""), origin=origin)
            except ValidationError as error:
                what = f"{recorded.path.name}: {shorten(item.name)!r} is no package"
                raise UnavailableError(what, details=[error.errors()[0]["msg"]]) from None
            files.setdefault(place, {})[str(item.notes.get("file") or item.uri)] = file
    packages = {
        place: Packages(tuple(words), dict(sorted(files.get(place, {}).items())))
        for place, words in recorded.requirements.items()
    }
    sources = {item.uri: item.digest["sha1"] for item in recorded.materials if "sha1" in item.digest}
    return Materials(sources=sources, packages=packages)


def images(recorded: Provenance) -> Mapping[str, str]:
    """Return name → digest of the base images that a wheel was made from."""
    return {item.name: f"sha256:{item.digest['sha256']}" for item in recorded.materials if item.is_image}
