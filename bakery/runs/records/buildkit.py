"""Facts about a wheel and its build that both records share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from bakery.core.addresses import without_credentials
from bakery.plan.values import Json

FOLDER = ".provenance"
"""The folder of records in the output folder.

``twine upload dist/*`` refuses every file and folder that is no distribution; ``*`` does not match names with a dot.
"""

PROVENANCE = ".provenance.json"
SBOM = ".cdx.json"
"""Suffixes of a wheel's file name."""


@dataclass(frozen=True, slots=True)
class Material:
    """A material of a wheel.

    Attributes:
        kind: ``source``, ``image``, ``package`` or ``system`` (a package of the base's package manager).
        uri: without credentials; may be empty.
        digest: algorithm → hexadecimal text, as in in-toto's DigestSet.
    """

    name: str
    kind: str
    uri: str = ""
    digest: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Machine:
    """The builder, without names of user and machine; ``engine``: version of ``program`` (``buildkit`` on a node)."""

    engine: str
    buildx: str
    platform: str
    program: str = "docker-engine"


def record_path(wheel: Path, suffix: str) -> Path:
    """Return the path of a wheel's record."""
    return wheel.parent / FOLDER / f"{wheel.name}{suffix}"


def waiting_path(wheel: Path, sha256: str, suffix: str) -> Path:
    """Return the path of a record while the wheel at that place is replaced, or if that was interrupted.

    ``sha256``: of the wheel that it is about.
    """
    return wheel.parent / FOLDER / f"{wheel.name}.{sha256[:12]}{suffix}"


def of_buildkit(provenance: object, sent: Mapping[str, str] | None = None) -> tuple[Material, ...]:
    """Return the materials in BuildKit's provenance (SLSA 0.2, as in buildx's metadata).

    ``sent``: sha256 → package URL of images that a node was sent. BuildKit calls them ``pkg:oci/…``, and an engine's
    own ``pkg:docker/…`` (solver/llbsolver/provenance); the record must not depend on that.
    """
    materials = provenance.get("materials") if isinstance(provenance, dict) else None
    return tuple(
        _material(item["uri"], item.get("digest") or {}, sent or {})
        for item in (materials if isinstance(materials, list) else ())
        if isinstance(item, dict) and isinstance(item.get("uri"), str)
    )


def _material(uri: str, digest: Mapping[str, str], sent: Mapping[str, str]) -> Material:
    if uri.startswith("pkg:oci/") and isinstance(digest, dict):
        uri = sent.get(str(digest.get("sha256")), uri)
    shown = without_credentials(uri)
    place = shown.partition("?")[0]
    if uri.startswith("pkg:docker/"):
        return Material(place.removeprefix("pkg:docker/").replace("@", ":"), "image", shown, digest)
    return Material(place.partition("#")[0], "source", shown, digest)


def image_purl(name: str, platform: str) -> str:
    """Return an image's package URL as BuildKit writes it (util/purl/image.go)."""
    path, colon, tag = name.partition("@")[0].rpartition(":")
    if not colon or "/" in tag:
        path, tag = name.partition("@")[0], "latest"
    return f"pkg:docker/{path}@{tag}?platform={quote(platform, safe='')}"


def merged(materials: Iterable[Material]) -> tuple[Material, ...]:
    """Return each material once, by kind and name."""
    return tuple(
        sorted({repr(item): item for item in materials}.values(), key=lambda item: (item.kind, item.name, item.uri))
    )
