"""Provides base images before a bake: each is checked once in a process, several in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from bakery.engine.debian_rootfs import ensure_debian
from bakery.plan.cells import Image


class Bases:
    """The base images of one engine.

    Attributes:
        environment: of the docker client.
    """

    def __init__(self, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
        self.environment = environment
        self._say = say
        self._names: dict[tuple[str, str], str] = {}

    def ensure(self, images: Iterable[Image]) -> dict[tuple[str, str], str]:
        """Make the Debian images that the engine lacks. buildx pulls all other images itself.

        Raises UnavailableError if an image is not available here, OSError if the cache cannot be written.

        Returns:
            (name in the files, platform) → name to build from. They differ for a stand-in of another platform.
        """
        debian = {(image.ref, image.platform): image for image in images if image.suite}
        missing = [image for key, image in debian.items() if key not in self._names]
        if missing:
            with ThreadPoolExecutor() as pool:
                for image, name in zip(missing, pool.map(self._one, missing), strict=True):
                    self._names[image.ref, image.platform] = name
        return {key: self._names[key] for key in debian}

    def _one(self, image: Image) -> str:
        arch = image.platform.partition("/")[2]
        return ensure_debian(self.environment, image.suite, arch, image.ref, self._say).name
