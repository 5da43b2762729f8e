"""Digests of base images and commits of sources: which ones a build used, and whether the engine can have others."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
from collections.abc import Mapping

from bakery.core.errors import EngineError
from bakery.core.image_names import familiar
from bakery.plan.values import Json

PROVENANCE = {"BUILDX_METADATA_PROVENANCE": "min"}
"""The environment in which buildx writes into the metadata file what each target was made from."""

TIMEOUT_S = 60.0


def used(metadata: Mapping[str, Json]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what buildx says that a target was made from: image → digest, git address with its ref → commit."""
    images: dict[str, str] = {}
    sources: dict[str, str] = {}
    for key, provenance in metadata.items():
        # With several platforms the key ends in the platform.
        listed = provenance.get("materials") if isinstance(provenance, dict) else None
        if not key.startswith("buildx.build.provenance") or not isinstance(listed, list):
            continue
        for item in listed:
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
    """Return the digest of an image that the engine itself has; empty where it has none of that name."""
    words = ["image", "inspect", "--platform", platform, "--format", "{{json .}}", name]
    said = _docker(environment, words)
    return str(json.loads(said).get("Id", "")) if said else ""


def offered(environment: Mapping[str, str], name: str) -> str:
    """Return the digest that a registry has for a name, which may itself have one; empty where it has none."""
    said = _docker(environment, ["buildx", "imagetools", "inspect", "--format", "{{json .Manifest}}", name])
    return str(json.loads(said).get("digest", "")) if said else ""


def _docker(environment: Mapping[str, str], words: list[str]) -> str:
    """Return what docker prints; nothing where it fails.

    Raises:
        EngineError: there is no docker.
    """
    try:
        done = subprocess.run(
            ["docker", *words],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return ""
    except OSError as error:
        raise EngineError(f"docker cannot be run: {error}", hint="run `wheel-bakery doctor`") from error
    return done.stdout.strip() if done.returncode == 0 else ""
