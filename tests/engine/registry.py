"""Images that only the tests' own registry has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from command import shell

NEEDED = ("PATH", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT")
"""What leads a docker client to the engine."""


@dataclass(frozen=True)
class Pushed:
    """An image that only the registry has."""

    name: str
    digest: str

    @property
    def mirrored(self) -> dict[str, str]:
        """The environment in which a base with a short name is this image."""
        return {"BAKERY_BASE_REGISTRY": self.name.rpartition("/")[0], "BAKERY_BASE_DIGEST": self.digest}


def push(environment: Mapping[str, str], image: str, name: str) -> Pushed:
    """Push a local image under another name, and forget that name here."""
    shell(environment, "docker", "tag", image, name)
    said = shell(environment, "docker", "push", name)
    found = re.search(r"digest: (sha256:[0-9a-f]{64})", said)
    assert found, said
    shell(environment, "docker", "rmi", "--force", name)
    return Pushed(name, found[1])
