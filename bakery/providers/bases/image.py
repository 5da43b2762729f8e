"""Base ``image``: any image by name and digest.

Images in manylinux layout are understood: interpreters below /opt/python, and AUDITWHEEL_PLAT, which
auditwheel reads by itself.
"""

from __future__ import annotations

from bakery.plan import Image, Stage, literal
from bakery.providers.bases.base import Base, Request


class AnyImage(Base):
    """One image for all Pythons."""

    name = "image"
    description = "any image by name and digest, such as a manylinux image"

    @property
    def global_args(self) -> tuple[str, ...]:
        """None: the image is named in full."""
        return ()

    def stages(self, request: Request) -> tuple[Stage, ...]:
        """Return the single stage ``root``."""
        return (Stage("root", literal(_reference(request))),)

    def image(self, request: Request, python: str, platform: str) -> Image:
        """Return the image, the same for every Python."""
        return Image(_reference(request), platform, self.name, "")


def _reference(request: Request) -> str:
    return f"{request.image}@{request.digest}" if request.digest else request.image


PROVIDER = AnyImage()
