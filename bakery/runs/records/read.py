"""Reads a wheel's provenance, a file that anybody may have written; packages as materials, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from bakery.core.addresses import without_credentials
from bakery.core.errors import UnavailableError
from bakery.plan.values import Json
from bakery.recipe.problems import shorten
from bakery.runs.journal import RecordedWheel
from bakery.runs.lock.model import LockedFile, Materials, Packages
from bakery.runs.records.buildkit import PROVENANCE, SBOM, Material, record_path, waiting_path
from bakery.runs.records.provenance import BUILD_TYPE, PREDICATE, SERVED
from wheel_audit.plain_files import file_sha256, read_plain

MAX_PROVENANCE_BYTES = 4 << 20
MAX_SBOM_BYTES = 64 << 20

_Hex = Annotated[str, Field(pattern=r"\A[0-9a-f]*\z")]


class RecordedMaterial(BaseModel):
    """A material in a provenance."""

    model_config = ConfigDict(frozen=True)

    name: str
    uri: str = ""
    digest: dict[str, _Hex] = {}
    notes: dict[str, Any] = Field(default={}, alias="annotations")

    @property
    def places(self) -> list[str]:
        """The places of a package of the index; empty for other materials."""
        names = self.notes.get("places")
        return [str(name) for name in names] if isinstance(names, list) and "version" in self.notes else []


class _Digest(BaseModel):
    sha256: str


class _Subject(BaseModel):
    name: str
    digest: _Digest


def _at(*path: str) -> AliasPath:
    return AliasPath("predicate", "buildDefinition", *path)


class Provenance(BaseModel):
    """The content of a provenance.

    Attributes:
        recipe_file: relative to the project, or the name of a shipped recipe.
        bakery: the version that made the plan.
        dockerfile: sha256 of the generated Dockerfile.
        requirements: place → requirements for the package index.
        also_serves: the cells that take the wheel without ``wheel.abi3``.
    """

    model_config = ConfigDict(frozen=True)

    predicate_type: str = Field(alias="predicateType")
    build_type: str = Field(validation_alias=_at("buildType"))
    subject: list[_Subject] = Field(min_length=1, max_length=1)
    recipe: str = Field(validation_alias=_at("externalParameters", "recipe", "name"))
    recipe_file: str = Field(validation_alias=_at("externalParameters", "recipe", "file"))
    cell: str = Field(validation_alias=_at("externalParameters", "cell"))
    settings: tuple[str, ...] = Field(validation_alias=_at("externalParameters", "settings"))
    bakery: str = Field(validation_alias=_at("internalParameters", "bakery"))
    dockerfile: str = Field(validation_alias=_at("internalParameters", "dockerfile", "sha256"))
    requirements: dict[str, list[str]] = Field(
        default_factory=dict, validation_alias=_at("internalParameters", "requirements")
    )
    also_serves: tuple[str, ...] = Field(default=(), validation_alias=_at("internalParameters", SERVED))
    materials: tuple[RecordedMaterial, ...] = Field(default=(), validation_alias=_at("resolvedDependencies"))
    path: Path = Path()

    @property
    def source(self) -> tuple[dict[str, str], dict[str, Any]] | None:
        """Digests and notes of the source that the engine was sent; None if it fetched the source."""
        return next(((item.digest, item.notes) for item in self.materials if "dirHash" in item.digest), None)

    @property
    def changed_while_built(self) -> list[str]:
        """Files of the source that changed while the wheel was built: nobody knows what it was built from."""
        found = (item.notes.get("changedWhileBuilt") for item in self.materials)
        return [str(name) for names in found if isinstance(names, list) for name in names]


def read(wheel: Path, given: Path | None = None) -> Provenance:
    """Return the provenance of a wheel, from a given file or beside the wheel.

    Raises UnavailableError if there is none, it cannot be read, or it is about another file.
    """
    if not wheel.is_file():
        raise UnavailableError(f"{wheel} is not a regular file")
    try:
        sha256 = file_sha256(wheel)
        path = given or provenance_of(wheel, sha256)
        if path is None or not path.is_file():
            raise UnavailableError(
                f"{wheel.name} has no provenance",
                details=[f"not there: {given or record_path(wheel, PROVENANCE)}"],
                hint="bakery writes it beside every wheel that it publishes; --provenance names the file",
            )
        provenance = Provenance.model_validate_json(read_plain(path, MAX_PROVENANCE_BYTES))
    except OSError as error:
        raise UnavailableError(f"cannot read {error.filename}: {error.strerror}") from error
    except ValidationError as error:
        details = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:20]]
        raise UnavailableError(f"{path} is not a provenance of bakery", details=details) from error
    if (provenance.predicate_type, provenance.build_type) != (PREDICATE, BUILD_TYPE):
        raise UnavailableError(
            f"{path} is another kind of provenance: {provenance.predicate_type}, {provenance.build_type}",
            hint=f"expected {PREDICATE}, {BUILD_TYPE}",
        )
    recorded = provenance.subject[0].digest.sha256
    if recorded != sha256:
        raise UnavailableError(
            f"{path.name} is about another file: its sha256 is {recorded[:16]}…, that of the wheel {sha256[:16]}…",
            hint="one of the two was replaced",
        )
    return provenance.model_copy(update={"path": path})


def provenance_of(wheel: Path, sha256: str) -> Path | None:
    """Return the file with the provenance of a wheel: in the folder of records, or beside the wheel; None for none.

    A run that was killed while it replaced the wheel may have left the right one under a name with its digest.
    """
    usual = record_path(wheel, PROVENANCE)
    paths = (waiting_path(wheel, sha256, PROVENANCE), usual, wheel.with_name(f"{wheel.name}{PROVENANCE}"))
    return next((path for path in paths if path.is_file()), None)


def kept_records(output: Path, wheel: RecordedWheel) -> tuple[bytes, bytes] | None:
    """Return provenance and SBOM in the output folder if both are those that the journal names for a wheel."""
    path = output / wheel.name
    try:
        texts = (
            read_plain(record_path(path, PROVENANCE), MAX_PROVENANCE_BYTES),
            read_plain(record_path(path, SBOM), MAX_SBOM_BYTES),
        )
    except OSError:
        return None
    digests = tuple(hashlib.sha256(text).hexdigest() for text in texts)
    return texts if digests == (wheel.provenance, wheel.sbom) else None


SOURCE = "source"
"""The place of a source archive, which is no package of the build."""

SUMS = "dpkgMd5sums"
"""The digest of a Debian package: SHA-256 of dpkg's list of its files and their MD5 sums.

The archive that it came in is not kept in an image.
"""


def package_materials(materials: Materials) -> Iterator[Material]:
    """Yield the packages that made a wheel, each once, and the source archive if there is one."""
    places: dict[tuple[str, LockedFile], list[str]] = {}
    for place, item in materials.packages.items():
        for name, file in item.files.items():
            places.setdefault((name, file), []).append(place)
    for (name, file), file_places in places.items():
        yield _of_index(name, file, sorted(file_places))
    for image, system in materials.system.items():
        for name, version in system.packages.items():
            purl = system.purls.get(name, "")
            # The checksum of a crate is that of its archive.
            kind = "sha256" if purl.startswith("pkg:cargo/") else SUMS
            digest = {kind: system.sums[name]} if name in system.sums else {}
            notes: dict[str, Json] = {"version": version, "image": image}
            yield Material(f"{name} {version}", "system", purl, digest, notes)


def _of_index(name: str, file: LockedFile, places: list[str]) -> Material:
    uri = without_credentials(file.origin) if file.origin else f"pkg:pypi/{file.name}@{quote(file.version, safe=':')}"
    commit = "" if file.sha256 else (file.origin or "").partition("#")[0].rpartition("@")[2]
    digest = {"sha256": file.sha256} if file.sha256 else {"gitCommit": commit}
    place_names: list[Json] = [*places]
    notes: dict[str, Json] = {
        "version": file.version,
        "file": "" if file.origin == name else name,
        "places": place_names,
    }
    return Material(f"{file.name} {file.version}", "source" if places == [SOURCE] else "package", uri, digest, notes)


def place_requirements(materials: Materials) -> dict[str, Json]:
    """Return place → its requirements."""
    return {place: [*map(without_credentials, item.requirements)] for place, item in sorted(materials.packages.items())}


def locked_from_provenance(recorded: Provenance) -> Materials:
    """Return packages and commits that a build can be pinned to. Raises UnavailableError for invalid ones."""
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


def recorded_images(recorded: Provenance) -> Mapping[str, str]:
    """Return name → digest of the base images of a wheel whose digest is known."""
    images = (item for item in recorded.materials if item.notes.get("kind") == "image")
    return {item.name: f"sha256:{item.digest['sha256']}" for item in images if "sha256" in item.digest}
