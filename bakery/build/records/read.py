"""Reads a wheel's provenance back: a file that anybody may have written."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from bakery.build.records.buildkit import PROVENANCE, record_path
from bakery.build.records.provenance import BUILD_TYPE, PREDICATE
from bakery.core.errors import UnavailableError
from bakery.core.plain_files import read_plain

LARGEST = 4 << 20
"""Bytes that a provenance may have."""


_Hex = Annotated[str, Field(pattern=r"\A[0-9a-f]*\z")]


class RecordedMaterial(BaseModel):
    """Something that a wheel was made from.

    Attributes:
        notes: what else is known of it.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    uri: str = ""
    digest: dict[str, _Hex] = {}
    notes: dict[str, Any] = Field(default={}, alias="annotations")

    @property
    def is_image(self) -> bool:
        """Whether it is an image whose digest is known."""
        return self.notes.get("kind") == "image" and "sha256" in self.digest

    @property
    def places(self) -> list[str]:
        """Where it was installed; empty for what is no package of the index."""
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
    """The facts of a provenance about a wheel.

    Attributes:
        recipe: the recipe's name; ``recipe_file`` is its file, relative to the project, or the name of a shipped one.
        settings: values of ``--set``.
        bakery: the version that planned it.
        dockerfile: sha256 of the generated Dockerfile.
        requirements: place → requirements for the package index.
        path: the file.
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
    materials: tuple[RecordedMaterial, ...] = Field(default=(), validation_alias=_at("resolvedDependencies"))
    path: Path = Path()

    @property
    def source(self) -> tuple[dict[str, str], dict[str, Any]] | None:
        """Digests and notes of the source that the engine was sent; None where it fetched it."""
        return next(((item.digest, item.notes) for item in self.materials if "dirHash" in item.digest), None)


def read(wheel: Path, given: Path | None = None) -> Provenance:
    """Return the provenance of a wheel.

    Args:
        given: the file; None to look beside the wheel.

    Raises:
        UnavailableError: there is none, it cannot be read, or it is about another file.
    """
    paths = [given] if given else [record_path(wheel, PROVENANCE), wheel.with_name(f"{wheel.name}{PROVENANCE}")]
    path = next((candidate for candidate in paths if candidate.is_file()), None)
    if path is None:
        raise UnavailableError(
            f"{wheel.name} has no provenance",
            details=[f"not there: {candidate}" for candidate in paths],
            hint="bakery writes it beside every wheel that it publishes; --provenance names the file",
        )
    if not wheel.is_file():
        raise UnavailableError(f"{wheel} is not a regular file")
    try:
        provenance = Provenance.model_validate_json(read_plain(path, LARGEST))
        with wheel.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UnavailableError(f"cannot read {error.filename}: {error.strerror}") from error
    except ValidationError as error:
        details = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:20]]
        raise UnavailableError(f"{path} is no provenance that bakery wrote", details=details) from error
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
