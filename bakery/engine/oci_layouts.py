"""Exports base images that only this machine's engine has as OCI layouts, from which nodes can get them.

A node queries registries, not the engine of this machine. The client reads a named context
``oci-layout://FOLDER@DIGEST``, and BuildKit fetches each blob that it lacks from it once.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bakery.core.errors import UnavailableError
from bakery.core.files import tar_members
from bakery.core.inside import MOST_NAMES, Inside, relative
from bakery.engine import image_digests
from bakery.engine.client import ClientError, Engine
from bakery.engine.debian_rootfs import in_registry
from bakery.engine.paths import made_once
from bakery.plan.values import Json
from wheel_audit.plain_files import open_plain
from wheel_audit.readers import read_json

SAVE_S = 900.0
"""Seconds that exporting an image may take."""

_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LARGEST, _MOST = 4 << 20, 1000
"""Bytes of an index, and images that it names, with those of indexes in it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """An image in a folder; ``digest`` is that of its manifest."""

    folder: Path
    digest: str

    @property
    def context(self) -> str:
        """The layout as a context of bake."""
        return f"oci-layout://{self.folder}@{self.digest}"


class Layouts:
    """Layouts of an engine's images, in a folder with a subfolder for each image and platform."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self.folder = folder
        self._environment = environment
        self._layouts: dict[tuple[str, str], Layout | None] = {}

    def of(self, name: str, platform: str) -> Layout | None:
        """Return an image as a layout; None if the engine does not have it, or a registry has it.

        Raises UnavailableError if the engine cannot export it, OSError if the folder cannot be written.
        """
        key = name.partition("@")[0], platform
        if key not in self._layouts:
            self._layouts[key] = self._find(*key)
        return self._layouts[key]

    def _find(self, name: str, platform: str) -> Layout | None:
        digest = image_digests.present(self._environment, name, platform)
        if not digest or in_registry(self._environment, name):
            return None
        final = self.folder / f"{digest.removeprefix('sha256:')[:24]}-{platform.replace('/', '-')}"
        made_once(final, lambda scratch: self._saved(name, platform, scratch))
        return Layout(final, _manifest(final, platform))

    def _saved(self, name: str, platform: str, scratch: Path) -> Path:
        tar, layout = scratch / "image.tar", scratch / "layout"
        words = ["image", "save", "--platform", platform, "--output", str(tar), name]
        try:
            Engine(self._environment).run(*words, timeout_s=SAVE_S)
            with open_plain(tar) as file:
                for member, content in tar_members(file, MOST_NAMES):
                    # Links are of an older format, beside the layout.
                    if content:
                        layout.mkdir(exist_ok=True)
                        Inside(layout).write(relative(member.name), content)
        except (ClientError, tarfile.TarError, OSError) as error:
            hint = "push it to a registry that the nodes reach"
            raise UnavailableError(f"cannot export {name} from the engine: {error}", hint=hint) from error
        _manifest(layout, platform)
        return layout


def _manifest(folder: Path, platform: str) -> str:
    """Return the digest of the manifest for a platform in a layout. Raises UnavailableError if it has none."""
    try:
        queue = _descriptors(folder / "index.json")
        for item in queue:
            digest = str(item["digest"])
            if not _DIGEST.fullmatch(digest) or len(queue) > _MOST:
                raise ValueError(f"{digest[:80]} is no digest, or there are more than {_MOST} images")
            if item.get("mediaType") in _INDEXES:
                queue += _descriptors(folder / "blobs" / digest.replace(":", "/"))
                continue
            of = item.get("platform")
            if not isinstance(of, dict) or f"{of.get('os')}/{of.get('architecture')}" == platform:
                return digest
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnavailableError(f"{folder} is not an image layout: {error}", hint="delete it and try again") from error
    raise UnavailableError(f"{folder} has no image for {platform}", hint="delete it and try again")


def _descriptors(path: Path) -> list[dict[str, Json]]:
    """Return the descriptors in an index."""
    manifests: list[dict[str, Json]] = read_json(path, _LARGEST)["manifests"]
    return manifests
