"""Base images that an engine must have before a bake: looked for once a process, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from bakery.engine.debian_rootfs import ensure_debian
from bakery.plan.cells import Image


class Bases:
    """The base images of one engine.

    Attributes:
        environment: the environment that leads to the engine.
    """

    def __init__(self, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
        self.environment = environment
        self._say = say
        self._names: dict[tuple[str, str], str] = {}

    def ensure(self, images: Iterable[Image]) -> dict[tuple[str, str], str]:
        """Make sure that the engine has each image that bakery can make; buildx pulls the others itself.

        Returns:
            (name in the files, platform) → name to build from; the two differ for a stand-in of another platform.

        Raises:
            UnavailableError: an image cannot be had here.
            OSError: the cache cannot be written.
        """
        made = {(image.ref, image.platform): image for image in images if image.suite}
        missing = [image for key, image in made.items() if key not in self._names]
        if missing:
            with ThreadPoolExecutor() as pool:
                for image, name in zip(missing, pool.map(self._one, missing), strict=True):
                    self._names[image.ref, image.platform] = name
        return {key: self._names[key] for key in made}

    def _one(self, image: Image) -> str:
        arch = image.platform.partition("/")[2]
        return ensure_debian(self.environment, image.suite, arch, image.ref, self._say).name
