"""Digests of base images and commits of sources: those that a build used, and those that an engine or registry has."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from functools import cached_property

from bakery.core.errors import EngineError
from bakery.core.image_names import familiar
from bakery.engine.client import Engine
from bakery.engine.discover import find
from bakery.plan.values import Json
from wheel_audit.readers import json_of

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
    """Return the digest of an image that the engine has for a platform, as builds record it; empty if it has none."""
    engine = Engine(environment)
    return str(engine.image(name).get("Id", "")) if engine.image(name, platform) else ""


class PresentImages:
    """The digests of images that a bake takes from the engine, asked once for each.

    ``environment`` is that of the process; ``builder``: the name of buildx's builder, None for the current one.
    """

    def __init__(self, environment: Mapping[str, str], builder: str | None) -> None:
        self._process = environment
        self._builder = builder
        self._digests: dict[tuple[str, str], str] = {}

    @cached_property
    def _environment(self) -> Mapping[str, str] | None:
        """The environment of the engine's client; None if builds do not take images from the engine."""
        try:
            environment = {**self._process, **find(self._process).environment}
            # Other builders ask the registry what a tag is now.
            return environment if Engine(environment).driver(self._builder) == "docker" else None
        except EngineError:
            return None

    def digest(self, name: str, platform: str) -> str:
        """Return the digest of an image; empty if the engine does not answer, or a bake would ask a registry."""
        key = (name, platform)
        if key not in self._digests:
            known = self._environment
            self._digests[key] = present(known, name, platform) if known is not None and platform else ""
        return self._digests[key]


def offered(environment: Mapping[str, str], name: str) -> str:
    """Return the digest that a registry has for a name, which may itself contain one; empty if it has none."""
    words = ["buildx", "imagetools", "inspect", "--format", "{{json .Manifest}}", name]
    output = Engine(environment).run_or_empty(*words)
    return str(json_of(output).get("digest", "")) if output else ""
