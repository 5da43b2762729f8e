"""Writes a root filesystem as an image that ``docker load`` reads: an OCI layout in a tar, byte for byte
the same for the same root filesystem."""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bakery.core.files import add_to_tar
from bakery.plan.values import Json
from wheel_audit.plain_files import file_sha256
from wheel_audit.readers import json_of

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
# Uncompressed, so that no compressor's version decides the digest.
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_LARGEST = 1 << 20
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Blob:
    """A content-addressed blob of an image: bytes in memory, or a file."""

    media_type: str
    digest: str
    size: int
    content: bytes | Path

    @property
    def path(self) -> str:
        """Its path in the layout."""
        return f"blobs/{self.digest.replace(':', '/')}"

    @property
    def descriptor(self) -> dict[str, Json]:
        """Its OCI descriptor, by which a manifest refers to it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


def write_image(rootfs: Path, target: Path, *, repository: str, tag: str, arch: str, epoch: int) -> str:
    """Write an image with one layer, the uncompressed tar ``rootfs``, to the tar ``target``; return the image's full name.

    The first 12 hex digits of the digest are appended to ``tag``. ``arch`` is amd64 or arm64, ``epoch`` the creation time
    in seconds since 1970. Raises OSError if a file cannot be read or written.
    """
    layer = Blob(_LAYER, f"sha256:{file_sha256(rootfs)}", rootfs.stat().st_size, rootfs)
    config = _json_blob(_image_config(layer, arch, epoch), _CONFIG)
    parts: dict[str, Json] = {"config": config.descriptor, "layers": [layer.descriptor]}
    manifest = _json_blob({"schemaVersion": 2, "mediaType": _MANIFEST, **parts}, _MANIFEST)
    name = f"{repository}:{tag}-{manifest.digest.removeprefix('sha256:')[:12]}"
    annotations = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    entry = {**manifest.descriptor, "annotations": annotations, "platform": _platform(arch)}
    # manifest.json is for engines without the containerd store, which do not read index.json.
    legacy = [{"Config": config.path, "RepoTags": [name], "Layers": [layer.path]}]
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        add_to_tar(archive, "index.json", _dump({"schemaVersion": 2, "manifests": [entry]}))
        add_to_tar(archive, "manifest.json", _dump(legacy))
        add_to_tar(archive, "oci-layout", _dump({"imageLayoutVersion": "1.0.0"}))
        for blob in (config, manifest, layer):
            add_to_tar(archive, blob.path, blob.content)
    return name


def read_name(image: Path) -> str:
    """Return the full name of an image that :func:`write_image` wrote.

    Raises OSError, tarfile.TarError, ValueError, KeyError if the file is not such an image.
    """
    with tarfile.open(image, "r:") as archive:
        member = archive.extractfile("manifest.json")
        if member is None:
            raise ValueError(f"{image} has no manifest.json")
        return str(json_of(member.read(_LARGEST))[0]["RepoTags"][0])


def _platform(arch: str) -> dict[str, Json]:
    return {"architecture": arch, "os": "linux", **({"variant": "v8"} if arch == "arm64" else {})}


def _image_config(layer: Blob, arch: str, epoch: int) -> dict[str, Json]:
    """Return the configuration that Debian's image has."""
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        **_platform(arch),
        "created": created,
        "config": {"Env": [_PATH], "Cmd": ["bash"]},
        "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
        "history": [{"created": created, "created_by": "bakery: mmdebstrap --variant=minbase"}],
    }


def _json_blob(document: dict[str, Json], media_type: str) -> Blob:
    content = _dump(document)
    return Blob(media_type, f"sha256:{hashlib.sha256(content).hexdigest()}", len(content), content)


def _dump(document: object) -> bytes:
    """Encode as JSON that depends on nothing but the content."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
