"""Digests of base images and commits of sources: those that a build used, and those that an engine or registry has."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping

from bakery.core.image_names import familiar
from bakery.engine.client import Engine
from bakery.plan.values import Json

PROVENANCE = {"BUILDX_METADATA_PROVENANCE": "min"}
"""Makes buildx write the materials of each target into its metadata file."""


def used(metadata: Mapping[str, Json]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the materials of a target from buildx's metadata: image → digest, git address with its ref → commit."""
    images: dict[str, str] = {}
    sources: dict[str, str] = {}
    for key, provenance in metadata.items():
        # With several platforms the key ends in the platform.
        materials = provenance.get("materials") if isinstance(provenance, dict) else None
        if not key.startswith("buildx.build.provenance") or not isinstance(materials, list):
            continue
        for item in materials:
            if isinstance(item, dict) and isinstance(digest := item.get("digest"), dict):
                uri = str(item.get("uri", ""))
                if uri.startswith("pkg:docker/"):
                    images[_image(uri)] = f"sha256:{digest.get('sha256')}"
                elif "sha1" in digest:
                    sources[uri] = str(digest["sha1"])
    return images, sources


def _image(purl: str) -> str:
    """Return the name in a package URL (``pkg:docker/NAME@TAG?…``), as `familiar` writes it."""
    path = purl.removeprefix("pkg:docker/").partition("?")[0]
    name, _, tag = path.rpartition("@")
    return familiar(f"{urllib.parse.unquote(name)}:{urllib.parse.unquote(tag)}" if name else urllib.parse.unquote(tag))


def present(environment: Mapping[str, str], name: str, platform: str) -> str:
    """Return the digest of an image that the engine has; empty if it has none of that name."""
    return str(Engine(environment).image(name, platform).get("Id", ""))


def offered(environment: Mapping[str, str], name: str) -> str:
    """Return the digest that a registry has for a name, which may itself contain one; empty if it has none."""
    words = ["buildx", "imagetools", "inspect", "--format", "{{json .Manifest}}", name]
    output = Engine(environment).run_or_empty(*words)
    return str(json.loads(output).get("digest", "")) if output else ""
