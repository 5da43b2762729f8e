"""What is known about a base image by its name."""

from __future__ import annotations

from bakery.core.image_names import ImageName
from bakery.toolchains.facts import manylinux_images
from bakery.toolchains.facts.rows import ManylinuxImage


def manylinux(image: ImageName | None) -> ManylinuxImage | None:
    """Return the facts about an image's family; None where there are none."""
    return next((row for row in manylinux_images() if image and row.name == image.family), None)
